"""One decode for several chains: what each field holds, on both paths."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from inverted import Inverted
from PIL import Image

from dtsflow.config.compose import compose
from dtsflow.decode.pillow import PillowDecoder
from dtsflow.errors import DecodeError
from dtsflow.native import core
from dtsflow.pipeline.build import build
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.po import (
    CenterCrop,
    Chain,
    ColorJitter,
    Normalize,
    Pad,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)
from dtsflow.po.operation import Operation
from dtsflow.po.schedule import Scheduled
from dtsflow.ranks.group import Rank
from dtsflow.spec import ImageSpec
from dtsflow.station import native_engine
from dtsflow.station.native_engine import NativeViewsEngine
from dtsflow.station.reference_engine import ReferenceEngine
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

FP16 = Normalize(preset="imagenet", dtype=DType.FP16)
Rows = dict[int, dict[str, bytes]]
Steps = tuple[Operation | Scheduled, ...]


VIEWS: dict[str, dict[str, Steps]] = {
    "windows": {
        "second": (RandomResizedCrop(9), RandomHorizontalFlip(), FP16),
        "corner": (RandomCrop(12), Normalize(preset="none")),
        "wide": (CenterCrop(70),),
    },
    "whole": {
        "jittered": (ColorJitter(0.4, 0.4, 0.4, 0.1), Resize((8, 12), fit="exact")),
        "framed": (Pad(5, padding_mode="reflect"), CenterCrop(20), FP16, RandomErasing(1.0)),
    },
    "python": {"split": (Inverted(), RandomResizedCrop(8), Inverted(), FP16)},
}
MAIN: Steps = (RandomResizedCrop(16), RandomHorizontalFlip(), FP16)


def picture(mode: str, kind: str, size: tuple[int, int], **options: Any) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(size[0]).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(noise).convert(mode).save(file, kind, **options)
    return file.getvalue()


IMAGES = [jpeg(20 + i, 40 - i, seed=i) for i in range(9)] + [
    picture("RGB", "PNG", (33, 21)),
    picture("CMYK", "JPEG", (40, 30)),
    picture("L", "JPEG", (25, 25)),
    picture("RGB", "JPEG", (7, 6)),
    picture("RGB", "JPEG", (31, 57), progressive=True),
    jpeg(200, 160, seed=77),
]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """JPEGs, and among them what the core does not decode."""
    samples = [(data, n % 3) for n, data in enumerate(IMAGES)]
    return write_block_volume(tmp_path / "x.dts", [samples[:6], samples[6:]])


def pipeline_of(path: Path, chain: Chain, *overrides: str) -> Pipeline:
    common = ["batch_size=4", "lanes=2", "workers=2", "station.poison=true"]
    made = build(compose([f"volume.path={path}", *common, *overrides]).values)
    return replace(made, phases={"train": replace(made.phases["train"], po=chain)})


def rows_of(pipeline: Pipeline, epoch: int = 0) -> Rows:
    """By sample id, the bytes of each field."""
    found: Rows = {}
    with Run.open(plan_run(pipeline, Rank(0, 1))) as run:
        for batch in run.epoch(epoch):
            fields = {"images": batch.images, **batch.fields}
            for row in np.flatnonzero(batch.valid):
                of_row = {name: array[row].tobytes() for name, array in fields.items()}
                found[int(batch.sample_ids[row])] = of_row
            for array in fields.values():
                assert not array[~batch.valid].any()
    return found


@pytest.fixture(params=["native", "reference"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine at work."""
    if request.param == "reference":
        monkeypatch.setattr("dtsflow.pipeline.phase.load", lambda: None)
        monkeypatch.setattr("dtsflow.pipeline.phase.warn_absent", lambda: None)
    elif core.load() is None:
        pytest.skip("the native core was not built")
    name: str = request.param
    return name


def expected(image: npt.NDArray[np.uint8], steps: Steps, sample: int, view: int) -> bytes:
    """What a chain makes of a decoded image, with the draws of its view's number."""
    program = Chain(steps).program(ImageSpec(None, None, 3))
    sizes = np.array([image.shape[:2]], np.int64)
    ids = np.array([sample], np.int64)
    params = program.draw(seed=0, ids=ids, epoch=3, phase=0, sizes=sizes, view=view)
    spec = program.out_spec
    assert spec.height is not None
    assert spec.width is not None
    out = np.empty((spec.height, spec.width, spec.channels), spec.dtype.numpy)
    program.run(image, out, params, 0)
    return out.tobytes()


@pytest.mark.parametrize("name", VIEWS)
def test_each_field_is_its_own_chain_on_the_decoded_image_drawn_for_its_view(
    volume: Path, name: str, way: str
) -> None:
    chain = Chain(MAIN, views=VIEWS[name])
    pipeline = pipeline_of(volume, chain)
    engine = plan_run(pipeline, Rank(0, 1)).phases["train"].engine()
    assert isinstance(engine, NativeViewsEngine if way == "native" else ReferenceEngine)
    rows = rows_of(pipeline, epoch=3)
    decoder = PillowDecoder("ignore")
    for sample, data in enumerate(IMAGES):
        image = decoder.decode(data)
        for view, (field, steps) in enumerate({"images": MAIN, **VIEWS[name]}.items()):
            assert rows[sample][field] == expected(image, steps, sample, view), (sample, field)


def test_the_main_chain_does_not_see_the_views(volume: Path, way: str) -> None:
    assert way
    alone = rows_of(pipeline_of(volume, Chain(MAIN)))
    beside = rows_of(pipeline_of(volume, Chain(MAIN, views=VIEWS["whole"])))
    assert {i: row["images"] for i, row in beside.items()} == {
        i: row["images"] for i, row in alone.items()
    }


def test_views_that_draw_nothing_are_what_runs_of_their_own_make(volume: Path, way: str) -> None:
    assert way
    steps: dict[str, Steps] = {
        "small": (Resize(10, fit="square"), FP16),
        "whole": (Resize((9, 14), fit="exact"),),
        "beside": (CenterCrop(64),),
    }
    together = rows_of(pipeline_of(volume, Chain((CenterCrop(8),), views=steps)))
    for name, own in steps.items():
        alone = rows_of(pipeline_of(volume, Chain(own)))
        assert [together[i][name] for i in together] == [alone[i]["images"] for i in together]


def test_two_views_of_one_chain_draw_independently(volume: Path) -> None:
    rows = rows_of(pipeline_of(volume, Chain(MAIN, views={"a": MAIN, "b": MAIN})))
    different = [len({row["images"], row["a"], row["b"]}) for row in rows.values()]
    assert sum(count == 3 for count in different) > len(different) * 3 // 4


@pytest.mark.skipif(core.load() is None, reason="the native core was not built")
@pytest.mark.parametrize("most", [1, 3000])
def test_little_scratch_gives_the_same_pixels(
    volume: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(volume, Chain(MAIN, views=VIEWS["windows"]), "workers=1")
    rows = rows_of(pipeline)
    monkeypatch.setattr(native_engine, "SCRATCH_BYTES", most)
    assert rows_of(pipeline) == rows


@pytest.mark.skipif(core.load() is None, reason="the native core was not built")
def test_a_decode_at_a_part_of_the_size_serves_all_chains_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [(jpeg(60 + 37 * i, 200 - 9 * i, seed=i), 0) for i in range(8)]
    images.append((picture("RGB", "PNG", (90, 70)), 0))
    path = write_block_volume(tmp_path / "big.dts", [images])
    found = []
    for last in (RandomResizedCrop(8), CenterCrop(8)):
        chain = Chain(MAIN, views={"small": (Resize(9, fit="square"),), "last": (last,)})
        for scaled in ("true", "false"):
            pipeline = pipeline_of(path, chain, f"decode.scaled={scaled}")
            native = rows_of(pipeline)
            with monkeypatch.context() as patch:
                patch.setattr("dtsflow.pipeline.phase.load", lambda: None)
                patch.setattr("dtsflow.pipeline.phase.warn_absent", lambda: None)
                assert rows_of(pipeline) == native
            found.append(native)
    assert found[0] != found[1]
    assert found[2] == found[3]  # what looks at no scaled window needs the whole image


@pytest.mark.parametrize(("kind", "preset"), [(Kind.MNIST, "mnist"), (Kind.CIFAR10, "cifar")])
def test_pixel_sets_have_views_too(
    tmp_path: Path, kind: Kind, preset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_small_set(tmp_path / "set.dts", kind, 13)
    chain = Chain(
        (RandomCrop(24), Normalize(preset=preset)),
        views={"whole": (), "flipped": (RandomHorizontalFlip(), Normalize(preset=preset))},
    )
    native = rows_of(pipeline_of(path, chain))
    monkeypatch.setattr("dtsflow.pipeline.phase.load", lambda: None)
    monkeypatch.setattr("dtsflow.pipeline.phase.warn_absent", lambda: None)
    assert rows_of(pipeline_of(path, chain)) == native
    assert len(native) == 13


def damaged() -> bytes:
    whole = jpeg(64, 64)
    found = bytearray(whole)
    start = (whole.index(b"\xff\xda") + len(whole)) // 2
    found[start : start + 2] = b"\xff\xd9"  # an end of image before its last rows
    return bytes(found)


@pytest.mark.parametrize("bad", [damaged, lambda: b"no image"], ids=["damaged", "no image"])
def test_a_bad_sample_is_bad_in_every_field(
    tmp_path: Path, bad: Callable[[], bytes], way: str
) -> None:
    assert way
    samples = [(jpeg(64, 64, seed=1), 0), (bad(), 1), (jpeg(64, 64, seed=2), 2)]
    path = write_block_volume(tmp_path / "bad.dts", [samples])
    chain = Chain((CenterCrop(64),), views={"small": (Resize(8, fit="square"), FP16)})
    with pytest.raises(DecodeError, match=r"label 1, sample_id 1"):
        rows_of(pipeline_of(path, chain))
    masked = rows_of(pipeline_of(path, chain, "decode.on_error=mask"))
    assert sorted(masked) == [0, 2]
    replaced = rows_of(pipeline_of(path, chain, "decode.on_error=replace"))
    assert replaced == masked
