"""Kernels become machine code without a GPU: for every architecture, once, and safely on disk."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpu.compiling import EXACT, MachineCode, compile_kernels
from gpu.nvrtc import CompilationError, KernelResources, nvrtc

ROW_SUM = Path(__file__).parent / "row_sum.cu"
ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "photonflow" / "kernels"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_kernel_compiles_for_every_architecture_and_tells_its_registers(architecture):
    compiled = compile_kernels(ROW_SUM, architecture, {"RADIUS": 1}, report=True)
    assert compiled.cubin.startswith(b"\x7fELF")
    (used,) = compiled.resources
    assert used.kernel == "row_sum"
    assert 8 <= used.registers <= 32
    assert used.spill_bytes == used.stack_bytes == 0


def test_spilled_registers_are_seen(tmp_path):
    source = tmp_path / "spills.cu"
    terms = "".join(f"float v{k} = p[{k}] * p[{k + 1}];" for k in range(200))
    source.write_text(
        'extern "C" __global__ __launch_bounds__(1024) void spills(float* p) {'
        f"{terms} __syncthreads(); {''.join(f'p[{k} * 3] = v{k};' for k in range(200))} }}"
    )
    (used,) = compile_kernels(source, 80, report=True).resources
    assert used == KernelResources("spills", used.registers, used.spill_bytes, used.stack_bytes)
    assert used.spill_bytes > 0


def test_products_and_sums_are_not_fused_and_denormals_are_kept(tmp_path):
    source = tmp_path / "multiply_add.cu"
    source.write_text('extern "C" __global__ void f(float* p) { p[0] = p[0] * p[1] + p[2] / p[3]; }')
    ours = _ptx(source, EXACT)
    assert "fma.rn.f32" not in ours
    assert ".ftz" not in ours
    assert "div.rn.f32" in ours
    # What would happen with CuPy's option and the compiler's own defaults.
    theirs = _ptx(source, ("-ftz=true",))
    assert "fma.rn.ftz.f32" in theirs


def test_a_mistake_in_a_kernel_is_told_with_its_line(tmp_path):
    source = tmp_path / "mistake.cu"
    source.write_text("\n__global__ void f() { undeclared = 1; }\n")
    with pytest.raises(CompilationError, match=r"mistake\.cu can't be compiled for sm_80.*mistake\.cu\(2\): error"):
        compile_kernels(source, 80)


def test_an_architecture_that_the_compiler_does_not_know_is_named():
    with pytest.raises(CompilationError, match=r"knows no GPU of compute capability 3\.5: install CUDA"):
        compile_kernels(ROW_SUM, 35, {"RADIUS": 1})


def test_code_is_compiled_once_and_then_read(folder):
    first = MachineCode().cubin(ROW_SUM, 80, {"RADIUS": 1})
    (file,) = folder.iterdir()
    kept = file.stat()
    assert MachineCode().cubin(ROW_SUM, 80, {"RADIUS": 1}) == first
    assert [file] == list(folder.iterdir())
    # What is compiled again takes the place of the file.
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (kept.st_ino, kept.st_mtime_ns)


def test_each_window_architecture_and_source_has_code_of_its_own(folder, tmp_path):
    cubin, source = MachineCode().cubin, tmp_path / "kernel.cu"
    source.write_text(ROW_SUM.read_text())
    cubin(source, 80, {"RADIUS": 1})
    cubin(source, 80, {"RADIUS": 2})
    cubin(source, 90, {"RADIUS": 1})
    source.write_text(ROW_SUM.read_text().replace("0.5f", "0.25f"))
    cubin(source, 80, {"RADIUS": 1})
    (tmp_path / "other.cuh").write_text("// a header that the kernel may include")
    cubin(source, 80, {"RADIUS": 1})
    assert len(list(folder.iterdir())) == 5


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", bytes(200)])
def test_damaged_code_is_not_loaded_but_compiled_again(folder, damage):
    whole = MachineCode().cubin(ROW_SUM, 80, {"RADIUS": 1})
    (file,) = folder.iterdir()
    content = file.read_bytes()
    file.write_bytes(damage)
    assert MachineCode().cubin(ROW_SUM, 80, {"RADIUS": 1}) == whole
    assert file.read_bytes() == content


def test_where_nothing_can_be_kept_each_process_compiles_for_itself(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert MachineCode().cubin(ROW_SUM, 80, {"RADIUS": 1}).startswith(b"\x7fELF")


def test_processes_that_compile_the_same_at_once_all_get_whole_code(folder):
    script = (
        "import sys; from pathlib import Path; from gpu.compiling import cubin;"
        "sys.stdin.readline(); sys.stdout.buffer.write(cubin(Path(sys.argv[1]), 80, {'RADIUS': 1}))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(ROW_SUM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    outputs = []
    for process in started:
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in started:
        outputs.append(process.communicate(timeout=120)[0])
    assert len(set(outputs)) == 1
    assert outputs[0].startswith(b"\x7fELF")
    assert [file.suffix for file in folder.iterdir()] == [".cubin"]


def _ptx(source, options):
    """What the compiler makes of it before the assembler, in which instructions can be read."""
    import ctypes

    library = nvrtc()._library
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), b"k", 0, None, None)
    arguments = (ctypes.c_char_p * (len(options) + 1))(
        b"--gpu-architecture=compute_80", *(option.encode() for option in options)
    )
    assert library.nvrtcCompileProgram(program, len(arguments), arguments) == 0
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, text)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return text.value.decode()
