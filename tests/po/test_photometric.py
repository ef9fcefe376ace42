"""Operations on values: the native form against the reference, bit for bit."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dtsflow.errors import PlanError
from dtsflow.native.core import Status, load
from dtsflow.po import (
    CenterCrop,
    Chain,
    ColorJitter,
    GaussianBlur,
    GaussianNoise,
    Normalize,
    RandAugment,
    RandomAutocontrast,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    TrivialAugmentWide,
)
from dtsflow.po.native import DrawnParams, EncodedSamples, FusedProgram, Rows, divide
from dtsflow.po.operation import Operation
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType

core = load()
LEVELS = [level for level in ("portable", "avx2") if core and core.force_cpu_level(level)]
FOR_GRAY: tuple[Operation, ...] = (
    ColorJitter(brightness=0.9, contrast=(0, 3)),
    RandomAutocontrast(0.8),
    GaussianBlur(1),
    GaussianBlur(3),
    GaussianBlur(23, sigma=(0.001, 9)),
    GaussianBlur(59, sigma=1000),
    GaussianNoise(),
    GaussianNoise(mean=-40, sigma=0),
    GaussianNoise(mean=3.3, sigma=900),
    RandomErasing(0.9, scale=(0.01, 1)),
    RandAugment(),
    RandAugment(num_ops=5, magnitude=25, interpolation="bilinear", fill=9),
    TrivialAugmentWide(),
)
FOR_COLOURS: tuple[Operation, ...] = (
    *FOR_GRAY,
    ColorJitter(0.4, 0.4, 0.4, 0.1),
    ColorJitter(brightness=(0, 5), contrast=(0, 1e4), saturation=(0, 20), hue=0.5),
    ColorJitter(saturation=(0, 1e4)),
    ColorJitter(hue=(0, 0)),
    RandomGrayscale(0.7),
)
SIZES = [(1, 1), (1, 2), (2, 1), (1, 70), (33, 1), (3, 5), (8, 8), (31, 33), (20, 64), (65, 97)]


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    assert core is not None
    assert core.force_cpu_level(request.param)
    yield request.param
    core.force_cpu_level(LEVELS[-1])


def picture(rng: np.random.Generator, height: int, width: int, channels: int) -> Any:
    """Noise, or a few values, or one: what has no contrast has its own branch."""
    low, high = sorted(rng.integers(0, 256, 2).tolist())
    first, end = ((0, 256), (low, high + 1), (low, low + 1))[rng.integers(3)]
    return rng.integers(first, end, (height, width, channels), np.uint8)


def both(
    chain: Chain, images: npt.NDArray[np.uint8], stored_channels: int, epoch: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """What the core and the reference make of images of one size; padding included."""
    count, height, width, channels = images.shape
    spec = ImageSpec(height, width, channels)
    specs, program = chain.specs(spec), chain.program(spec)
    sizes = np.full((count, 2), (height, width))
    params, traced = program.draw_with_sizes(
        seed=5, ids=np.arange(count), epoch=epoch, phase=0, sizes=sizes
    )
    out_height, out_width = traced[-1][0].tolist()
    shape = (count, out_height, out_width, stored_channels)
    dtype = specs[-1].dtype.numpy
    made, wanted = np.full(shape, 77, dtype), np.zeros(shape, dtype)
    size, row = images[0].size, made[0].nbytes
    rows = Rows(
        made.view(np.uint8).reshape(-1), np.arange(count) * row, made, np.arange(count), channels
    )
    bytes_each = np.full(count, size)
    shapes = np.full((count, 2), (height, width), np.int32)
    stored = EncodedSamples(images.reshape(-1), np.arange(count) * size, bytes_each, shapes)
    fused = FusedProgram(core, chain.operations, specs, stored_channels)  # type: ignore[arg-type]  # no test runs without it
    chosen = DrawnParams(params, traced, np.ones(count, np.int64))
    assert (fused.run(stored, chosen, rows, encoded=False) == Status.OK).all()
    for i in range(count):
        program.run(images[i], wanted[i, ..., :channels], params, i, traced)
    return made, wanted


def check(chain: Chain, channels: int, *, stored: int | None = None) -> None:
    rng = np.random.default_rng(channels)
    for epoch, (height, width) in enumerate(SIZES):
        images = np.stack([picture(rng, height, width, channels) for _ in range(8)])
        made, wanted = both(chain, images, stored or channels, epoch)
        assert made.tobytes() == wanted.tobytes(), (height, width)


@pytest.mark.parametrize("operation", FOR_COLOURS, ids=str)
def test_the_native_form_is_the_reference_on_colours(level: str, operation: Operation) -> None:
    assert level
    check(Chain((operation,)), 3)


@pytest.mark.parametrize("operation", FOR_GRAY, ids=str)
def test_the_native_form_is_the_reference_on_gray(level: str, operation: Operation) -> None:
    assert level
    check(Chain((operation,)), 1)


@pytest.mark.parametrize("stored", [3, 4])
@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP16, DType.BF16, DType.UINT8])
def test_a_recipe_is_the_same_in_every_dtype(level: str, dtype: DType, stored: int) -> None:
    assert level
    last = Normalize(preset="none" if dtype is DType.UINT8 else "imagenet", dtype=dtype)
    flip = RandomHorizontalFlip()
    cut = (RandomResizedCrop(20), flip, GaussianNoise(sigma=4), flip, GaussianBlur(5))
    first = (*cut, RandAugment(num_ops=3))
    colour = (RandomErasing(0.8), ColorJitter(0.2, 0.2, 0.2, 0.1), RandomGrayscale(), flip)
    for chain in (
        Chain((*first, *colour, last)),
        Chain((*first, *colour[1:], last, RandomErasing(0.9), RandomErasing(0.5))),
    ):
        check(chain, 3, stored=stored)


@pytest.mark.parametrize("operation", FOR_COLOURS, ids=str)
def test_nothing_splits_the_chain(operation: Operation) -> None:
    assert len(divide((CenterCrop(8), operation, Normalize(preset="imagenet")))) == 1


def test_a_sample_gets_the_same_in_any_chunk_and_another_one_something_else() -> None:
    chain = Chain((ColorJitter(0.4, 0.4, 0.4, 0.1), GaussianNoise()))
    image = picture(np.random.default_rng(1), 9, 9, 3)
    program = chain.program(ImageSpec(9, 9, 3))

    def run(ids: list[int], place: int) -> bytes:
        sizes = np.full((len(ids), 2), 9)
        params = program.draw(seed=1, ids=np.array(ids), epoch=2, phase=0, sizes=sizes)
        out = np.empty((9, 9, 3), np.uint8)
        program.run(image, out, params, place)
        return out.tobytes()

    assert run([4, 7, 9], 1) == run([7], 0)
    assert run([4, 7, 9], 0) != run([7], 0)


@pytest.mark.parametrize(
    "behind",
    [Resize(8), CenterCrop(8), RandomCrop(8), RandomResizedCrop(8)],
    ids=lambda one: type(one).__name__,
)
def test_what_cuts_or_scales_cannot_follow_erasing(behind: Operation) -> None:
    chain = Chain((CenterCrop(9), RandomErasing(), RandomHorizontalFlip(), behind))
    with pytest.raises(
        PlanError, match=r"\[3\] \(\w+\): it comes after RandomErasing.*Move RandomErasing behind"
    ):
        chain.specs(ImageSpec(None, None, 3))


def test_erasing_may_stand_behind_normalize_and_keeps_its_dtype() -> None:
    chain = Chain((CenterCrop(9), Normalize(preset="imagenet"), RandomErasing()))
    assert chain.specs(ImageSpec(None, None, 3))[-1] == ImageSpec(9, 9, 3, DType.FP32)
    assert chain.normalize is chain.operations[1]


def test_nothing_else_may_stand_behind_normalize_and_erasing() -> None:
    chain = Chain((CenterCrop(9), Normalize(preset="imagenet"), RandomErasing(), ColorJitter(0.1)))
    with pytest.raises(PlanError, match=r"\[3\] \(ColorJitter\): it comes after Normalize"):
        chain.specs(ImageSpec(None, None, 3))


def test_a_chain_of_erasing_alone_erases() -> None:
    image = np.full((40, 40, 3), 9, np.uint8)
    program = Chain((RandomErasing(1),)).program(ImageSpec(40, 40, 3))
    params = program.draw(seed=0, ids=np.arange(1), epoch=0, phase=0, sizes=np.full((1, 2), 40))
    out = np.empty_like(image)
    program.run(image, out, params, 0)
    y, x, height, width = params[0][0].item()
    assert height * width > 0
    assert (out[y : y + height, x : x + width] == 0).all()
    assert (out == 9).sum() == 3 * (1600 - height * width)
