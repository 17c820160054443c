// Answers as NVIDIA's management library does, for as many cards as the environment says: so that programs which ask
// the driver for GPUs can be run on a machine that has none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} PciInfo;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int nvmlInit_v2(void) { return number("DRIVER_ANSWERS", 0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Unknown Error"; }

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = number("DRIVER_CUDA", 12080);
    return 0;
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "570.86.15");
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = number("DRIVER_CARDS", 0);
    return 0;
}
// A card's handle is its index and 1, an instance's is that of its card and 100 for each.
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card) {
    *card = (void *)(size_t)(index + 1);
    return 0;
}
int nvmlDeviceGetName(void *card, char *text, unsigned size) {
    snprintf(text, size, number("DRIVER_ALIKE", 1) ? "Model" : "Model %d", (int)(size_t)card);
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
    const int value = (int)(size_t)handle;
    snprintf(text, size, "%s-%08d-1111-2222-3333-444444444444", value < 100 ? "GPU" : "MIG", value);
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *card, PciInfo *place) {
    memset(place, 0, sizeof *place);
    place->bus = 0x10 * (unsigned)(size_t)card;
    return 0;
}
int nvmlDeviceGetMigMode(void *card, unsigned *mode, unsigned *pending) {
    *mode = *pending = number("DRIVER_INSTANCES", 0) > 0;
    return number("DRIVER_INSTANCES", 0) ? 0 : 3;
}
int nvmlDeviceGetMaxMigDeviceCount(void *card, unsigned *count) {
    *count = 7;
    return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *card, unsigned place, void **instance) {
    if ((int)place >= number("DRIVER_INSTANCES", 0)) return 6;
    *instance = (void *)((size_t)card + 100 * (place + 1));
    return 0;
}
