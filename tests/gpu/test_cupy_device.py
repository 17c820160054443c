"""What can be known of CuPy's device without a GPU: that it says why it can't be opened, and calls CUDA as it is."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpu.cuda_errors import device_error, driver_too_old
from gpu.cupy_device import CupyDevice
from gpu.device import DeviceError, KernelSource, LostDeviceError, OutOfDeviceMemoryError
from gpu.external_events import DriverCallError, record_as_external


class CudaError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"cudaError {status}")
        self.status = status


@pytest.mark.parametrize(
    ("code", "kind"),
    [(2, OutOfDeviceMemoryError), (700, LostDeviceError), (719, LostDeviceError), (1, DeviceError), (712, DeviceError)],
)
def test_cuda_codes_become_what_they_mean(code, kind):
    error = device_error("a copy failed", CudaError(code))
    assert type(error) is kind
    assert str(error) == f"a copy failed: cudaError {code}"


def test_a_driver_that_is_too_old_is_known_by_its_code():
    assert driver_too_old(CudaError(35))
    assert not driver_too_old(CudaError(100))
    assert not driver_too_old(RuntimeError("35"))


def test_where_cupy_is_missing_the_device_says_what_to_install():
    script = "import sys; sys.modules['cupy'] = None; from gpu.cupy_device import open_device; open_device()"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.stderr.splitlines()[-1] == (
        "RuntimeError: the GPU is driven through CuPy, which is not installed: pip install 'photonflow[cuda12]'"
    )


class WrittenDown:
    """CUDA's runtime and driver, which do nothing but write down what they are asked, and answer with new handles."""

    hostAllocPortable, eventDisableTiming, eventBlockingSync, streamNonBlocking = 1, 2, 1, 1  # noqa: N815
    streamCaptureModeThreadLocal = 1  # noqa: N815

    def __init__(self):
        self.asked = []

    @property
    def runtime(self):
        return self

    driver = runtime

    def __getattr__(self, name):
        def answer(*arguments):
            self.asked.append((name, *arguments))
            return 256 * len(self.asked)

        return answer

    @property
    def names(self):
        return [name for name, *_ in self.asked]


@pytest.fixture
def written_down():
    return WrittenDown()


@pytest.fixture
def any_gpu(written_down):
    return CupyDevice(written_down, {"name": b"any", "major": 8, "minor": 0})


def test_garbage_that_is_found_during_a_capture_is_given_back_after_it(any_gpu, written_down):
    stream, cycle = any_gpu.stream(), [any_gpu.allocate(100), any_gpu.event()]
    cycle.append(cycle)
    gc.disable()  # It is this test that chooses the moment.
    try:
        del cycle
        stream.capture(lambda: [gc.collect(), stream.fill(256, 0, 8)])
    finally:
        gc.enable()
    names = written_down.names
    begun, ended = names.index("streamBeginCapture"), names.index("streamEndCapture")
    assert names[begun + 1 : ended] == ["memsetAsync"]
    assert sorted(names[ended + 1 : ended + 3]) == ["eventDestroy", "free"]


def test_a_capture_that_fails_is_ended_and_what_was_found_meanwhile_given_back(any_gpu, written_down):
    stream, memory = any_gpu.stream(), any_gpu.allocate(100)

    def work():
        memory.free()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stream.capture(work)
    assert written_down.names[-4:] == ["streamBeginCapture", "streamEndCapture", "graphDestroy", "free"]


def test_who_waits_for_an_event_sleeps(any_gpu, written_down):
    any_gpu.event()
    assert ("eventCreateWithFlags", 2 | 1) in written_down.asked


def test_an_event_that_is_asked_for_times_is_made_with_one(any_gpu, written_down):
    first, second = (any_gpu.event(timed=True) for _ in range(2))
    assert written_down.asked == [("eventCreateWithFlags", 1)] * 2
    # Of milliseconds: the handles are 256 and 512, and the answer is 256 for each call so far.
    assert second.seconds_since(first) == 3 * 256 / 1000
    assert written_down.asked[-1] == ("eventElapsedTime", 256, 512)


def test_events_in_a_graph_are_ones_that_the_host_may_look_at(any_gpu, written_down):
    stream, event = any_gpu.stream(), any_gpu.event(timed=True)
    stream.record(event)
    graph = stream.capture(lambda: stream.record(event))
    stream.record(event)
    stream.replay(graph)
    names = written_down.names
    begun, ended = names.index("streamBeginCapture"), names.index("streamEndCapture")
    assert written_down.asked[begun + 1 : ended] == [("record_in_capture", event.handle, stream.handle)]
    assert [name for name in names[:begun] + names[ended:] if "ecord" in name] == ["eventRecord"] * 2


DRIVER = """
#include <stdio.h>
int cuEventRecordWithFlags(void *event, void *stream, unsigned flags) {
    return (long)event == 2 ? 700 : !((long)event == 0x123456789abL && (long)stream == 0xba987654321L && flags == 1);
}
"""


def test_the_driver_is_asked_for_events_in_graphs_by_its_own_interface(tmp_path):
    source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    source.write_text(DRIVER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=300)
    record_as_external(0x123456789AB, 0xBA987654321, str(library))
    with pytest.raises(DriverCallError) as refused:
        record_as_external(2, 1, str(library))
    assert type(device_error("an event can't be recorded", refused.value)) is LostDeviceError
    with pytest.raises(DriverCallError, match=r"nowhere\.so can't be asked"):
        record_as_external(1, 1, str(tmp_path / "nowhere.so"))


def test_a_program_is_loaded_once_for_all_that_ask_for_it(any_gpu, written_down, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("gpu.cupy_device.KERNELS", tmp_path)
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(float* p) { p[0] = N; }')
    three, four = (KernelSource("k.cu", (("N", n),), ("k",)) for n in (3, 4))
    assert any_gpu.load(three) is any_gpu.load(three)
    assert any_gpu.load(four) is not any_gpu.load(three)
    assert written_down.names.count("moduleLoadData") == 2


@pytest.fixture(scope="module")
def runtime():
    """CuPy's CUDA runtime: installed, or in a folder of its own, where it makes no GPU of interest to other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / ".cupy"))
        yield pytest.importorskip(
            "cupy.cuda.runtime",
            reason="CuPy is not there: pip install --no-deps --target .cupy cupy-cuda12x cuda-pathfinder",
        )
        for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx", "cupy_backends")]:
            del sys.modules[name]


@pytest.fixture
def device(runtime, monkeypatch, tmp_path):
    """CuPy's device on a machine whose CUDA refuses everything, for want of a driver."""
    from cupy_backends.cuda.api import driver

    from gpu.cupy_device import CupyDevice, _Cuda

    try:
        runtime.getDeviceCount()
    except runtime.CUDARuntimeError:
        pass
    else:
        pytest.skip("there is a GPU here: benchmarks/gpu_check.py tries it")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cuda = _Cuda(runtime, driver)
    cuda._of_thread.chosen = True  # which would be refused like all the rest
    return CupyDevice(cuda, {"name": b"None", "major": 8, "minor": 0})


def test_without_a_driver_every_call_reaches_cuda_and_its_refusal_is_told(device):
    array = np.zeros(100, np.uint16)
    fixed = np.zeros(100, np.uint16)
    fixed.flags.writeable = False
    for call in (
        lambda: device.allocate(100),
        lambda: device.allocate_pinned(100),
        lambda: device.page_lock(array),
        lambda: device.page_lock(fixed),
        device.stream,
        device.event,
        device.memory,
    ):
        with pytest.raises(DeviceError, match="CUDA driver version is insufficient"):
            call()
    with pytest.raises(ValueError, match="can't be page-locked: copy it"):
        device.page_lock(array[::2])


def test_without_a_driver_what_a_stream_does_reaches_cuda(device):
    from gpu.cupy_device import _Event, _Graph, _Kernel, _Memory, _PinnedMemory, _Stream

    def without_making(kind, **attributes):
        made = kind.__new__(kind)
        made._cuda = device._cuda
        for name, value in attributes.items():
            setattr(made, name, value)
        return made

    stream, event = without_making(_Stream, handle=1, _captures=False), without_making(_Event, handle=1)
    capturing = without_making(_Stream, handle=1, _captures=True)
    kernel = _Kernel(device._cuda, 1, "k")
    arguments = [2**40, np.int32(-1), np.uint32(1), np.float32(0.5)]
    for call, words in (
        (lambda: stream.upload(256, 256, 8), "8 bytes can't be copied: .*insufficient"),
        (lambda: stream.download(256, 256, 8), "insufficient"),
        (lambda: stream.copy(256, 256, 8), "insufficient"),
        (lambda: stream.fill(256, 0, 8), "insufficient"),
        (lambda: stream.record(event), "insufficient"),
        (lambda: capturing.record(event), "an event can't be recorded: the driver libcuda.so.1 can't be asked"),
        (lambda: event.seconds_since(event), "does not say how long its work took: .*insufficient"),
        (lambda: stream.wait(event), "insufficient"),
        (stream.synchronize, "insufficient"),
        (event.synchronize, "insufficient"),
        (lambda: stream.capture(lambda: None), "insufficient"),
        (lambda: stream.replay(without_making(_Graph, handle=1)), "insufficient"),
        (lambda: stream.launch(kernel, (1, 1, 1), (32, 1, 1), arguments), "k can't be launched: .*libcuda"),
        (lambda: stream.launch(kernel, (1, 1, 1), (32, 1, 1), arguments, 64 << 10), "k can't be launched: .*libcuda"),
    ):
        with pytest.raises(DeviceError, match=words):
            call()
    # What can't be given back raises nothing: it would hide what went wrong before.
    _Memory(device._cuda, 256, 8).free()
    pinned = np.zeros(8, np.uint8)
    locked = _PinnedMemory(device._cuda, pinned.ctypes.data, 8)
    locked.array[:] = 7
    locked.free()
    assert pinned.tolist() == [7] * 8


def test_a_device_that_can_not_be_opened_says_that_the_driver_is_too_old(device):
    from gpu.cupy_device import open_device

    with pytest.raises(RuntimeError, match="the NVIDIA driver is too old for CUDA 12, for which CuPy is installed"):
        open_device()


def test_loading_a_kernel_compiles_it_for_the_device(device, monkeypatch, tmp_path):
    monkeypatch.setattr("gpu.cupy_device.KERNELS", tmp_path)
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(float* p) { p[0] = N; }')
    with pytest.raises(DeviceError, match=r"k\.cu can't be loaded onto the GPU"):
        device.load(KernelSource("k.cu", (("N", "3"),), ("k",)))
    assert list((tmp_path / "photonflow/kernels").glob("k-sm_80-*.cubin"))
