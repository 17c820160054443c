// Just enough of CUDA for photonflow's kernels to run on the CPU: a fiber a thread, one block after the other.
//
// Between two barriers the threads of a block run in an order of the launch's choosing (forwards, backwards, at random),
// and so do the blocks. Shared memory is poisoned before each block.
#pragma once
#include <stddef.h>
#include <string.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("emulated_shared")))
// The section is there even where a kernel shares nothing.
static char nothing_shared __attribute__((section("emulated_shared"), used));
extern "C" char __start_emulated_shared __attribute__((visibility("hidden")));
extern "C" char __stop_emulated_shared __attribute__((visibility("hidden")));

namespace emulation {

struct Index {
    unsigned x, y, z;
};

struct Launch {
    Index grid, block;
    int order;  // 0 forwards, 1 backwards, 2 at random
    unsigned long long seed;
};

struct Here {
    Index thread, block, block_size, grid_size;
    unsigned lane;
};
extern Here here;  // of the thread that runs now

typedef void (*Body)(void* arguments);
const char* run(const Launch& launch, Body body, void* arguments, char* shared, size_t shared_nbytes);
void barrier();
// Hands `value` to the lanes of `mask`, all of which have to come; returns the values of the warp's 32 lanes.
const unsigned long long* exchange(unsigned mask, unsigned long long value, const char* what);

template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct UpTo : UpTo<N - 1, N - 1, I...> {};
template <size_t... I>
struct UpTo<0, I...> {
    typedef Indices<I...> type;
};

template <class... P, size_t... I>
void call(void (*kernel)(P...), void** arguments, Indices<I...>)
{
    kernel(*(P*)arguments[I]...);
}

template <class... P>
void call(void (*kernel)(P...), void** arguments)
{
    call(kernel, arguments, typename UpTo<sizeof...(P)>::type());
}

template <class... P>
const char* fits(void (*)(P...), const size_t* sizes, size_t n)
{
    const size_t wanted[] = {sizeof(P)...};
    if (n != sizeof...(P)) return "another number of arguments than the kernel has";
    for (size_t i = 0; i < n; ++i)
        if (sizes[i] != wanted[i]) return "an argument has another size than the kernel's";
    return nullptr;
}

}  // namespace emulation

// What the device calls: one such function a kernel.
#define EMULATE(kernel)                                                                                       \
    extern "C" const char* emulate_##kernel(const emulation::Launch* launch, void** arguments,                \
                                            const size_t* sizes, size_t n)                                    \
    {                                                                                                         \
        if (const char* wrong = emulation::fits(kernel, sizes, n)) return wrong;                              \
        return emulation::run(*launch, [](void* given) { emulation::call(kernel, (void**)given); }, arguments, \
                              &__start_emulated_shared, &__stop_emulated_shared - &__start_emulated_shared);  \
    }

#define threadIdx (emulation::here.thread)
#define blockIdx (emulation::here.block)
#define blockDim (emulation::here.block_size)
#define gridDim (emulation::here.grid_size)

inline void __syncthreads() { emulation::barrier(); }

inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    const unsigned long long* values = emulation::exchange(mask, predicate != 0, "__ballot_sync");
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) bits |= (unsigned)values[lane] << lane;
    return bits;
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance)
{
    unsigned long long given = 0;
    memcpy(&given, &value, sizeof value);
    const unsigned lane = emulation::here.lane;
    const unsigned long long* values = emulation::exchange(mask, given, "__shfl_up_sync");
    T result;
    memcpy(&result, &values[lane >= distance ? lane - distance : lane], sizeof result);
    return result;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

inline unsigned atomicAdd(unsigned* place, unsigned value) { return __atomic_fetch_add(place, value, __ATOMIC_RELAXED); }
inline unsigned long long atomicAdd(unsigned long long* place, unsigned long long value)
{
    return __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
}
inline int atomicAdd(int* place, int value) { return __atomic_fetch_add(place, value, __ATOMIC_RELAXED); }
inline float atomicAdd(float* place, float value)
{
    const float before = *place;
    *place = before + value;
    return before;
}
