"""The compiled finder for processors that this machine may not be: AVX2, AVX-512, plain x86-64, and Arm."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter

import pytest

# Whatever fuses a product and a sum rounds once where the design rounds twice.
FUSED = re.compile(r"v?f(n?m(add|sub|la|ls)|nm(add|sub|la|ls))\w*")


TARGETS = {
    "haswell": ("x86_64-unknown-linux-gnu", "vmulps", "ymm"),
    "skylake-avx512": ("x86_64-unknown-linux-gnu", "vmulps", "ymm"),
    "x86-64": ("x86_64-unknown-linux-gnu", "mulps", "xmm"),
    "cortex-a72": ("aarch64-unknown-linux-gnu", "fmul", ".4s"),
    "neoverse-v1": ("aarch64-unknown-linux-gnu", "fmul", ".4s"),
}
# The finder for 3×3 with running noise in LLVM's own language; then what LLVM writes for a processor. In a process of
# its own, for LLVM ends a process that asks for too much.
EMIT = """
import json, re, sys
import llvmlite.binding as llvm
import numpy as np
from finder import FinderParameters, Pedestal, compiled_code, open_finder
from finder.code_compilation import optimized
from finder.kernel import find_clusters

pedestal = Pedestal.from_mean_and_noise(np.full((9, 40), 50.0), np.full((9, 40), 2.0))
open_finder("cpu", FinderParameters(), (9, 40)).find(np.full((1, 9, 40), 50, np.uint16), pedestal)
(signature,) = [signature for name, signature in compiled_code._compiled if name.startswith("find_clusters")]
ir, _ = optimized(find_clusters, signature)
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
codes = {}
for cpu, (triple, *_) in json.loads(sys.argv[1]).items():
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
    module = llvm.parse_assembly(re.sub(r"(?m)^target .*$", "", ir))
    module.triple, module.data_layout = triple, str(machine.target_data)
    codes[cpu] = machine.emit_assembly(module)
json.dump(codes, sys.stdout)
"""


@pytest.fixture(scope="module")
def codes():
    """The finder in the assembly language of each target."""
    done = subprocess.run([sys.executable, "-c", EMIT, json.dumps(TARGETS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("cpu", TARGETS)
def test_the_finder_compiles_to_vectors_and_nothing_is_fused(codes, cpu):
    _, multiply, register = TARGETS[cpu]
    lines = [line.split() for line in codes[cpu].splitlines() if line.startswith("\t") and not line.startswith("\t.")]
    counts = Counter(line[0] for line in lines if line)
    assert counts[multiply] > 50
    assert codes[cpu].count(register) > 200
    assert not [name for name in counts if FUSED.fullmatch(name)]


def test_fused_instructions_would_be_seen():
    assert all(FUSED.fullmatch(name) for name in ("vfmadd213ps", "vfnmadd231ss", "fmla", "fmadd", "fnmsub", "fmls"))
    assert not any(FUSED.fullmatch(name) for name in ("fmul", "vmulps", "fadd", "fmov", "vmaxps"))


COMPARE = """
import numpy as np
from finder import FinderParameters, Pedestal, open_finder
rng, shape = np.random.default_rng(7), (23, 45)
mask = rng.random(shape) < 0.05
pedestal = Pedestal.from_mean_and_noise(rng.normal(50, 3, shape), np.full(shape, 2.0))
frames = (rng.normal(50, 2, (40, *shape)) + (rng.random((40, *shape)) < 0.03) * 90).round().astype(np.uint16)
finders = [open_finder(name, FinderParameters(), shape, mask) for name in ("cpu", "reference")]
fast, plain = (finder.find(frames, pedestal) for finder in finders)
assert len(plain) > 100
for name in ("frame_index", "y", "x", "signal", "n_clusters"):
    assert getattr(fast, name).tobytes() == getattr(plain, name).tobytes(), name
for name in ("s1", "s2"):
    assert getattr(fast.pedestal, name).tobytes() == getattr(plain.pedestal, name).tobytes(), name
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it runs code for x86-64")
@pytest.mark.parametrize("cpu", ["x86-64", pytest.param("haswell", marks=pytest.mark.slow)])
def test_code_for_a_lesser_processor_gives_the_same_bits(tmp_path, cpu):
    told = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COMPARE], env=os.environ | told, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
