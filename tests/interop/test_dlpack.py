from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.errors import ConfigError
from dtsflow.interop.dlpack import Bfloat16
from dtsflow.testing import jpeg, write_block_volume

BITS = np.arange(24, dtype=np.uint16).reshape(2, 3, 4) + 0x3F80  # from 1.0 upwards


def numbers(bits: Any) -> Any:
    """BF16 is the upper half of FP32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="the extra 'torch' is not installed")


@pytest.mark.parametrize(
    "part",
    [np.s_[:], np.s_[:, ::2, :3], np.s_[:0]],
    ids=["whole", "strided", "empty"],
)
def test_the_bits_become_bfloat16_in_the_same_memory(torch: Any, part: Any) -> None:
    bits = BITS.copy()[part]
    tensor = torch.from_dlpack(Bfloat16(bits))
    assert tensor.dtype == torch.bfloat16
    assert np.array_equal(tensor.float().numpy(), numbers(bits))
    bits[...] = 0x4000
    assert torch.equal(tensor, torch.full(bits.shape, 2.0, dtype=torch.bfloat16))


def test_both_kinds_of_capsule_say_bfloat16(torch: Any) -> None:
    exported = Bfloat16(BITS.copy())
    old, new = exported.__dlpack__(), exported.__dlpack__(max_version=(1, 0))
    assert '"dltensor"' in repr(old)
    assert '"dltensor_versioned"' in repr(new)
    for capsule in (old, new):
        assert torch.equal(torch.from_dlpack(capsule).float(), torch.tensor(numbers(BITS)))


def test_a_copy_leaves_the_bits_alone(torch: Any) -> None:
    bits = BITS.copy()
    tensor = torch.utils.dlpack.from_dlpack(Bfloat16(bits).__dlpack__(copy=True))
    tensor.zero_()
    assert np.array_equal(bits, BITS)


def test_a_capsule_that_nobody_takes_frees_the_array() -> None:
    bits = BITS.copy()
    capsule = Bfloat16(bits).__dlpack__()
    with pytest.raises(ValueError, match="referenced"):
        bits.resize((1,))
    del capsule
    bits.resize((1,))


def test_numpy_has_no_bfloat16_to_make_of_it() -> None:
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(Bfloat16(BITS.copy()))


def test_an_array_of_another_type_is_refused() -> None:
    wrong: Any = np.zeros(3, np.float16)
    with pytest.raises(ConfigError, match="float16, and BF16 is carried as uint16"):
        Bfloat16(wrong)


def test_a_batch_of_padded_bf16_pixels_is_shared(torch: Any, workdir: Path) -> None:
    path = write_block_volume(workdir / "x.dts", [[(jpeg(seed=i), 0) for i in range(2)]])
    operations = [
        {"_target_": "dtsflow.po.CenterCrop", "size": 8},
        {"_target_": "dtsflow.po.Normalize", "preset": "imagenet", "dtype": "BF16"},
    ]
    tree = {"volume": {"path": str(path)}, "po": {"operations": operations}, "batch_size": 2}
    with dtsflow.open(tree) as run:
        (batch,) = run.epoch(0)
        for array in (batch.images, batch.padded):
            tensor = torch.from_dlpack(Bfloat16(array))
            assert tensor.dtype == torch.bfloat16
            assert tensor.data_ptr() == array.ctypes.data
            assert np.array_equal(tensor.float().numpy(), numbers(array))
