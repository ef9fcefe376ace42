from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.interop.dlpack import Bfloat16
from dtsflow.pipeline.run import Run
from dtsflow.testing import jpeg, write_block_volume

jax = pytest.importorskip("jax", reason="the extra 'jax' is not installed")

from dtsflow.interop.jax import batches  # noqa: E402  # it needs JAX

DTYPES = {"FP32": "float32", "FP16": "float16", "BF16": "bfloat16", "UINT8": "uint8"}


@pytest.fixture
def volume(workdir: Path) -> Path:
    return write_block_volume(
        workdir / "tiny.dts", [[(jpeg(20, 24, seed=i), i % 4) for i in range(10)]]
    )


def opened(path: Path, dtype: str = "FP32") -> Run:
    preset = "none" if dtype == "UINT8" else "imagenet"
    crop = {"_target_": "dtsflow.po.RandomResizedCrop", "size": 8}
    normalize = {"_target_": "dtsflow.po.Normalize", "preset": preset, "dtype": dtype}
    tree = {
        "volume": {"path": str(path)},
        "po": {"operations": [crop, normalize]},
        "station": {"poison": True, "timeout_s": 30},
        "batch_size": 4,
        "lanes": 1,
        "workers": 2,
    }
    return dtsflow.open(tree)


def taken(images: Any, labels: Any, valid: Any, sample_ids: Any) -> tuple[bytes, ...]:
    return tuple(np.asarray(each).tobytes() for each in (images, labels, valid, sample_ids))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_list_of_batches_has_the_pixels_of_the_run(volume: Path, dtype: str) -> None:
    with opened(volume, dtype) as run:
        expected = [
            taken(batch.images, batch.labels, batch.valid, batch.sample_ids)
            for batch in run.epoch(0)
        ]
        kept = list(batches(run.epoch(0)))
    assert [taken(*batch) for batch in kept] == expected
    assert {batch.images.dtype.name for batch in kept} == {DTYPES[dtype]}
    assert kept[0].images.shape == (4, 8, 8, 3)


def test_labels_are_int32_and_ids_keep_all_their_bits(volume: Path) -> None:
    with opened(volume) as run:
        *_, last = batches(run)  # a run is taken as well as a pass
    assert last.labels.dtype == np.int32
    assert last.sample_ids.dtype == np.int64
    assert last.valid.tolist() == [True, True, False, False]
    assert last.labels.tolist()[2:] == [-1, -1]


def test_a_state_counts_the_batches_handed_out(volume: Path) -> None:
    with opened(volume) as run:
        for step, _ in enumerate(batches(run.epoch(0)), 1):
            assert run.state().step == step % 3


def test_without_copies_a_batch_is_right_until_the_next_one_is_asked_for(volume: Path) -> None:
    with opened(volume) as run:
        expected = [batch.images.copy() for batch in run.epoch(0)]
        for batch, images in zip(batches(run.epoch(0), copy=False), expected, strict=True):
            assert np.array_equal(jax.block_until_ready(batch.images + 0), images)


def test_a_batch_goes_to_the_device_that_is_named(volume: Path) -> None:
    device = jax.devices("cpu")[0]
    with opened(volume) as run:
        batch = next(iter(batches(run.epoch(0), device=device)))
    assert batch.images.devices() == {device}


def test_bf16_bits_arrive_by_dlpack() -> None:
    bits = np.arange(0x3F80, 0x3F80 + 12, dtype=np.uint16).reshape(3, 4)
    array = jax.dlpack.from_dlpack(Bfloat16(bits))
    assert array.dtype == jax.numpy.bfloat16
    assert np.array_equal(
        np.asarray(array, np.float32), (bits.astype(np.uint32) << 16).view(np.float32)
    )
