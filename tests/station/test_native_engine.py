"""The native engine against the reference engine, over whole epochs."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inverted import Inverted
from PIL import Image

from dtsflow.config.compose import compose
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.digest import Digest
from dtsflow.errors import DecodeError
from dtsflow.native import core
from dtsflow.pipeline.build import build
from dtsflow.pipeline.explain import plan_text
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.pipeline.planner import plan_run
from dtsflow.pipeline.run import Run
from dtsflow.po import (
    CenterCrop,
    Chain,
    ColorJitter,
    Normalize,
    Pad,
    RandAugment,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomScale,
    Resize,
)
from dtsflow.ranks.group import Rank
from dtsflow.station import engine
from dtsflow.station.native_engine import NativeEngine
from dtsflow.station.reference_engine import ReferenceEngine
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg, write_block_volume, write_small_set
from dtsflow.volume.format.header import Kind

pytestmark = pytest.mark.skipif(core.load() is None, reason="the native core was not built")

FP16 = Normalize(preset="imagenet", dtype=DType.FP16)
BOX = RandomErasing(p=0.5)


def stored(mode: str, kind: str, size: tuple[int, int], **options: Any) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(size[0]).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(noise).resize(size).convert(mode).save(file, kind, **options)
    return file.getvalue()


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return stored("RGB", "JPEG", (30, 20), exif=exif)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """JPEGs with PNG, CMYK, gray, palette and turned pictures among them."""
    images = [jpeg(20 + i, 40 - i, seed=i) for i in range(14)]
    images += [
        stored("RGB", "PNG", (33, 21)),
        stored("CMYK", "JPEG", (40, 30)),
        stored("L", "JPEG", (25, 25)),
        stored("P", "PNG", (16, 48)),
        stored("RGB", "JPEG", (1, 1)),
        stored("RGB", "JPEG", (31, 57), progressive=True),
        *(turned(n) for n in range(1, 9)),
    ]
    samples = [(data, n % 3) for n, data in enumerate(images)]
    return write_block_volume(tmp_path / "mixed.dts", [samples[:13], samples[13:]])


def pipeline_of(path: Path, chain: Chain, *overrides: str) -> Pipeline:
    common = ["batch_size=8", "lanes=4", "workers=2", "station.poison=true"]
    values = compose([f"volume.path={path}", *common, *overrides]).values
    made = build(values)
    return replace(made, phases={"train": replace(made.phases["train"], po=chain)})


def digest(pipeline: Pipeline) -> dict[str, Any]:
    sink = Digest().open(Setting(None, {"train": PhaseSetting(0)}))
    with Run.open(plan_run(pipeline, Rank(0, 1))) as run:
        for epoch in (0, 1):
            for batch in run.epoch(epoch):
                assert not batch.padded[..., batch.images.shape[-1] :].any()
                sink.take(batch)
    return sink.results()


def both(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    native = digest(pipeline)
    with monkeypatch.context() as patch:
        patch.setattr("dtsflow.pipeline.phase.load", lambda: None)
        patch.setattr("dtsflow.pipeline.phase.warn_absent", lambda: None)
        reference = digest(pipeline)
    return native, reference


CHAINS = {
    "train": Chain((RandomResizedCrop(16), RandomHorizontalFlip(), FP16)),
    "plain": Chain((RandomResizedCrop(16, antialias=False), FP16)),
    "val": Chain((Resize(24), CenterCrop(20), Normalize(preset="imagenet", dtype=DType.BF16))),
    "square": Chain((Resize(12, fit="square"), RandomHorizontalFlip())),
    "flip first": Chain((RandomHorizontalFlip(), CenterCrop(18), RandomHorizontalFlip(), FP16)),
    "crop with padding": Chain((CenterCrop(64), Normalize(preset="none"))),
    "random crop": Chain((RandomCrop(25, padding=3), RandomHorizontalFlip(), FP16)),
    "gray": Chain((RandomResizedCrop(16), RandomGrayscale(0.5), FP16)),
    "colours and boxes": Chain(
        (RandomResizedCrop(16), RandomHorizontalFlip(), ColorJitter(0.2, 0.2, 0.2, 0.1), FP16, BOX)
    ),
    "moved": Chain(
        (Pad(2, fill=9), RandomCrop(28), RandomRotation(20), RandomScale(0.8, 1.2), FP16, BOX)
    ),
    "augmented": Chain((RandomResizedCrop(16), RandomHorizontalFlip(), RandAugment(), FP16)),
    "python in the middle": Chain(
        (RandomResizedCrop(16), Inverted(), RandomHorizontalFlip(), FP16)
    ),
    "python first": Chain((Inverted(), RandomResizedCrop(16), FP16)),
    "python last": Chain((RandomResizedCrop(16), RandomHorizontalFlip(), Inverted())),
    "python on varying sizes": Chain((Resize(24), Inverted(), Inverted(), CenterCrop(16), FP16)),
    "python alone": Chain((Resize((8, 9), fit="exact"), Inverted())),
}


@pytest.mark.parametrize("orientation", ["ignore", "apply"])
@pytest.mark.parametrize("name", CHAINS)
def test_native_and_reference_deliver_the_same_pixels(
    mixed: Path, name: str, orientation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(mixed, CHAINS[name], f"decode.orientation={orientation}")
    native, reference = both(pipeline, monkeypatch)
    assert native == reference


@pytest.mark.parametrize("name", ["train", "plain", "val", "random crop"])
def test_every_set_of_instructions_gives_the_same_digest(mixed: Path, name: str) -> None:
    native = core.load()
    assert native is not None
    best = native.cpu_level()
    levels = [level for level in ("portable", "avx2") if native.force_cpu_level(level)]
    found = []
    for level in levels:
        native.force_cpu_level(level)
        found += [digest(pipeline_of(mixed, CHAINS[name]))]
    native.force_cpu_level(best)
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("orientation", ["ignore", "apply"])
@pytest.mark.parametrize("antialias", [True, False])
def test_scaled_decodes_give_the_same_pixels_on_both_paths(
    tmp_path: Path,
    orientation: str,
    antialias: bool,  # noqa: FBT001  # pytest passes it by name
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images = [jpeg(60 + 37 * i, 200 - 9 * i, seed=i) for i in range(12)]
    images += [stored("RGB", "PNG", (90, 70)), stored("CMYK", "JPEG", (80, 90)), turned(6)]
    path = write_block_volume(tmp_path / "x.dts", [[(data, 0) for data in images]])
    found = []
    for scaled in ("true", "false"):
        overrides = [f"decode.scaled={scaled}", f"decode.orientation={orientation}"]
        for chain in (
            Chain((RandomResizedCrop(12, antialias=antialias), FP16)),
            Chain((Resize(14, antialias=antialias), Inverted(), CenterCrop(14), FP16)),
        ):
            native, reference = both(pipeline_of(path, chain, *overrides), monkeypatch)
            assert native == reference
            found.append(native["digest"]["samples"])
    assert len(set(found)) == 4


@pytest.mark.parametrize("align", [1, 4])
@pytest.mark.parametrize(("kind", "preset"), [(Kind.MNIST, "mnist"), (Kind.CIFAR10, "cifar")])
def test_pixel_sets_go_the_same_way(
    tmp_path: Path, kind: Kind, preset: Any, align: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_small_set(tmp_path / "set.dts", kind, 37)
    for operations in (
        (Normalize(preset=preset, dtype=DType.FP16),),
        (RandomHorizontalFlip(), Normalize(preset=preset)),
        (CenterCrop(40), RandomHorizontalFlip()),
        (RandomCrop(32, padding=4), RandomHorizontalFlip(), Normalize(preset=preset)),
        (RandomResizedCrop(20), Inverted(), Normalize(preset=preset, dtype=DType.BF16)),
        (),
    ):
        pipeline = pipeline_of(path, Chain(operations), f"station.channel_align={align}")
        native, reference = both(pipeline, monkeypatch)
        assert native == reference


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_a_damaged_image_is_refused_by_the_same_words(
    tmp_path: Path, cut: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = jpeg(64, 64)
    damaged = bytearray(whole)
    scan = whole.index(b"\xff\xda")
    start = scan + int((len(whole) - scan) * cut)
    damaged[start : start + 2] = b"\xff\xd9"  # an end of image before its last rows
    path = write_block_volume(tmp_path / "x.dts", [[(whole, 0), (bytes(damaged), 2)]])
    pipeline = pipeline_of(path, Chain((CenterCrop(64),)), "batch_size=1", "lanes=1")
    words = []
    for native in (True, False):
        if not native:
            monkeypatch.setattr("dtsflow.pipeline.phase.load", lambda: None)
        with pytest.raises(DecodeError, match=r"sample 1 \(label 2, sample_id 1\)") as caught:
            digest(pipeline)
        words.append(str(caught.value))
    assert words[0] == words[1]


def test_a_bad_image_after_a_good_one_never_shows_the_good_one(tmp_path: Path) -> None:
    good = jpeg(32, 32)
    path = write_block_volume(tmp_path / "x.dts", [[(good, 0), (good[:-2], 1)]])
    pipeline = pipeline_of(path, Chain((CenterCrop(32),)), "batch_size=2", "lanes=1")
    with pytest.raises(DecodeError, match="end-of-image"):
        digest(pipeline)


def test_the_plan_says_what_is_fused_and_what_splits_the_chain(mixed: Path) -> None:
    chain = CHAINS["python in the middle"]
    pipeline = pipeline_of(mixed, chain)
    text = plan_text(plan_run(pipeline, Rank(0, 1)))
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "native call 1" in lines["decode"]
    assert "native call 1" in lines["po.operations[0]"]
    assert "Python, splits the chain" in lines["po.operations[1]"]
    assert "native call 2" in lines["po.operations[2]"]
    assert "native call 2" in lines["po.operations[3]"]


def test_pillow_and_the_switch_choose_the_reference(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def engine_of(*overrides: str) -> engine.Engine:
        pipeline = pipeline_of(mixed, CHAINS["train"], *overrides)
        return plan_run(pipeline, Rank(0, 1)).phases["train"].engine()

    assert isinstance(engine_of(), NativeEngine)
    assert isinstance(engine_of("decode=pillow"), ReferenceEngine)
    monkeypatch.setenv("DTSFLOW_NATIVE", "0")
    core._find.cache_clear()
    try:
        assert isinstance(engine_of(), ReferenceEngine)
        assert "DTSFLOW_NATIVE=0" in core.why_absent()
    finally:
        monkeypatch.undo()
        core._find.cache_clear()
