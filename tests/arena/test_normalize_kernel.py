"""normalize.cu, compiled for the host and for devices."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import fake_cuda
import numpy as np
import numpy.typing as npt
import pytest

from dtsflow.arena.device import SOURCE
from dtsflow.arena.upload import KERNELS
from dtsflow.po.normalize import Normalize
from dtsflow.tensor.dtype import DType

# What a device compiler knows by itself; a pixel's turn is one thread's here.
_DEVICE = """
#define __device__
#define __global__
struct Three { unsigned x; };
static const Three blockIdx{0}, threadIdx{0}, blockDim{1}, gridDim{1};
static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
static unsigned __float_as_uint(float y) { return __builtin_bit_cast(unsigned, y); }
static unsigned short half_bits(float y) {
  return __builtin_bit_cast(unsigned short, (_Float16)y);
}
"""
_ADDRESSES = 5
Kernel = Callable[..., None]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Kernel]:
    """The kernels as functions of the host."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("kernel")
    source, library = folder / "normalize.cpp", folder / "normalize.so"
    source.write_text(_DEVICE + SOURCE.read_text())
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
    built = subprocess.run(
        [compiler, *flags, "-o", str(library), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "_Float16" in built.stderr:
        pytest.skip("this g++ has no _Float16")
    assert built.returncode == 0, built.stderr
    functions = ctypes.CDLL(str(library))

    def kernel(name: str) -> Kernel:
        function = getattr(functions, name)
        function.restype = None
        function.argtypes = [ctypes.c_void_p] * _ADDRESSES + [ctypes.c_longlong] * 4
        return cast(Kernel, function)

    return kernel


NORMALIZES = [
    Normalize(preset=preset, dtype=dtype)
    for dtype in (DType.FP32, DType.FP16, DType.BF16)
    for preset in ("imagenet", "mlperf")
] + [Normalize(mean=(0.5, 1e-7, 0.999), std=(1e3, 3e3, 0.004), dtype=DType.FP16)]


@pytest.mark.parametrize("stored", [3, 4, 8])
@pytest.mark.parametrize("normalize", NORMALIZES, ids=str)
def test_a_kernel_writes_what_the_host_path_writes(
    compiled: Callable[[str], Kernel], normalize: Normalize, stored: int
) -> None:
    pixels = every_value()
    valid = np.array([True, False, True])
    name = KERNELS[normalize.dtype]
    expected = by_host(normalize, pixels, valid, stored)
    for kernel in (compiled(name), lambda *given: fake_cuda.normalize(name, *given)):
        assert by_kernel(kernel, normalize, pixels, valid, stored) == expected.tobytes()


def every_value() -> npt.NDArray[np.uint8]:
    """Three rows of 16 by 16 pixels, with every value in every channel."""
    values = np.arange(256, dtype=np.uint8)
    return np.stack([np.roll(np.stack([values, values[::-1], values], 1), i, 0) for i in range(3)])


def by_host(
    normalize: Normalize, pixels: npt.NDArray[np.uint8], valid: npt.NDArray[np.bool_], stored: int
) -> npt.NDArray[Any]:
    out = np.zeros((*pixels.shape[:2], stored), normalize.dtype.numpy)
    for row in np.flatnonzero(valid):
        normalize.apply(pixels[row, :, None], out[row, :, None, :3], np.void(b""))
    return out


def by_kernel(
    kernel: Kernel,
    normalize: Normalize,
    pixels: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.bool_],
    stored: int,
) -> bytes:
    finish = normalize.finish(3)
    out = np.full((*pixels.shape[:2], stored), 0x7B, normalize.dtype.numpy)
    arrays = (pixels, valid, finish.scale, finish.offset, out)
    kernel(*(int(array.ctypes.data) for array in arrays), 3, 256, 3, stored)
    return out.tobytes()


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_kernels_compile_for_devices(architecture: str, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        pytest.skip("no nvcc")
    binary = tmp_path / "normalize.cubin"
    built = subprocess.run(
        [nvcc, "-cubin", f"-arch={architecture}", "-Werror=all-warnings", "-o", str(binary),
         str(SOURCE)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert all(name.encode() in binary.read_bytes() for name in KERNELS.values())


def test_the_kernels_round_twice_and_never_fuse(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        pytest.skip("no nvcc")
    code = tmp_path / "normalize.ptx"
    subprocess.run([nvcc, "-ptx", "-arch=sm_80", "-o", str(code), str(SOURCE)], check=True)
    text = code.read_text()
    assert "mul.rn.f32" in text
    assert "add.rn.f32" in text
    assert "cvt.rn.f16.f32" in text
    assert "fma.rn.f32" not in text
    assert ".ftz" not in text
