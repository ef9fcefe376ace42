from dataclasses import replace

import numpy as np
import pytest

from dtsflow.arena.arena import Form
from dtsflow.arena.host import Host
from dtsflow.decode.pillow import PillowDecoder
from dtsflow.memory.plan import MemoryPlan
from dtsflow.po import CenterCrop, Chain, Normalize, RandomResizedCrop
from dtsflow.reader.store import Samples
from dtsflow.spec import ImageSpec
from dtsflow.station.engine import Address
from dtsflow.station.reference_engine import ReferenceDecode, ReferenceEngine
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg

PHOTO = ImageSpec(None, None, 3)
CHAIN = Chain((RandomResizedCrop(8), Normalize(preset="imagenet", dtype=DType.FP16)))
ADDRESS = Address(seed=5, epoch=2, phase=0)


def engine_of(chain: Chain = CHAIN) -> ReferenceEngine:
    return ReferenceEngine(ReferenceDecode(PillowDecoder("ignore")), chain.program(PHOTO))


def zone_of(dtype: DType = DType.FP16) -> Zone:
    form = Form(6, ImageSpec(8, 8, 3, dtype), 4 if dtype is DType.FP16 else 3)
    plan = MemoryPlan().input_buffers(batch=6, image=form.image, dtype=dtype).finalize()
    zone = Host().open(plan, {"train": form}).zones["train"][0]
    zone.poison()
    return zone


def samples_of(images: list[bytes], first_id: int = 0) -> Samples:
    sizes = np.array([len(image) for image in images], np.int64)
    ids = np.arange(first_id, first_id + len(images), dtype=np.int64)
    memory = np.frombuffer(b"".join(images), np.uint8)
    return Samples(memory, np.cumsum(sizes) - sizes, sizes, ids.astype(np.int32), ids)


def test_it_writes_the_places_it_is_given_padding_too_and_no_others() -> None:
    zone = zone_of()
    engine_of().fill(samples_of([jpeg(), jpeg(seed=1)]), ADDRESS, zone, np.array([4, 1]))
    written = np.isfinite(zone.images.astype(np.float32)).reshape(6, -1)
    assert written.all(axis=1).tolist() == [False, True, False, False, True, False]
    assert not written[[0, 2, 3, 5]].any()
    assert not zone.padded[[1, 4], ..., 3].any()
    assert np.isnan(zone.padded[0].astype(np.float32)).all()


def test_a_row_depends_on_its_sample_and_address_and_on_nothing_beside_it() -> None:
    images = [jpeg(40, 30, seed=i) for i in range(6)]
    together, alone, other = zone_of(), zone_of(), zone_of()
    engine_of().fill(samples_of(images), ADDRESS, together, np.arange(6))
    for i, image in enumerate(images):
        engine_of().fill(samples_of([image], i), ADDRESS, alone, np.array([i]))
    assert together.padded.tobytes() == alone.padded.tobytes()
    engine_of().fill(samples_of(images), Address(5, 3, 0), other, np.arange(6))
    assert together.padded.tobytes() != other.padded.tobytes()


def test_a_crop_without_draws_is_the_decoded_image() -> None:
    zone = zone_of(DType.UINT8)
    image = jpeg(8, 8)
    engine_of(Chain((CenterCrop(8),))).fill(samples_of([image]), ADDRESS, zone, np.array([2]))
    assert np.array_equal(zone.images[2], PillowDecoder("ignore").decode(image))


@pytest.mark.parametrize("cut", [90, -30], ids=["probe", "decode"])
def test_a_bad_sample_is_given_with_its_reason_and_all_others_are_written(cut: int) -> None:
    images = [jpeg(seed=i) for i in range(4)]
    whole, with_bad = zone_of(), zone_of()
    engine_of().fill(samples_of(images), ADDRESS, whole, np.arange(4))
    images[1] = images[1][:cut]
    bad = engine_of().fill(samples_of(images), ADDRESS, with_bad, np.arange(4))
    assert list(bad) == [1]
    assert "end-of-image" in str(bad[1]) or "header" in str(bad[1])
    rows = [0, 2, 3]
    assert with_bad.padded[rows].tobytes() == whole.padded[rows].tobytes()


def test_a_probe_finds_those_without_a_header_and_no_others() -> None:
    samples = samples_of([jpeg(), jpeg()[:90], b"text", jpeg(seed=1)])
    assert sorted(engine_of().probe(samples)) == [1, 2]


def test_a_substitute_is_drawn_for_as_the_sample_it_stands_for() -> None:
    image = jpeg(40, 30)
    itself, instead, other = zone_of(), zone_of(), zone_of()
    place = np.array([0])
    engine_of().fill(samples_of([image], 5), ADDRESS, itself, place)
    engine_of().fill(
        replace(samples_of([image], 9), stands_for=np.array([5])), ADDRESS, instead, place
    )
    engine_of().fill(samples_of([image], 9), ADDRESS, other, place)
    assert instead.padded[0].tobytes() == itself.padded[0].tobytes() != other.padded[0].tobytes()


def test_time_spent_is_booked_by_stage() -> None:
    engine = engine_of()
    engine.fill(samples_of([jpeg()]), ADDRESS, zone_of(), np.array([0]))
    assert engine.times.decode > 0
    assert engine.times.po > 0
    assert engine.times.read == 0
