"""The draws of the compiled core against those in NumPy, number for number."""

import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dtsflow.config.configurable import configurable
from dtsflow.decode.decoder import MAX_PIXELS
from dtsflow.native.core import CASTS, STEP_NUMBERS, DrawKind, Status, StepKind, load
from dtsflow.po import (
    CenterCrop,
    Chain,
    ColorJitter,
    DoNothing,
    FastRandomResizedCrop,
    GaussianBlur,
    GaussianNoise,
    Normalize,
    Pad,
    RandAugment,
    RandomAffine,
    RandomAutocontrast,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomScale,
    RandomVerticalFlip,
    Resize,
    TrivialAugmentWide,
)
from dtsflow.po.native import DrawnParams, FusedProgram, drawings
from dtsflow.po.operation import Draws, Operation, Params, Sizes
from dtsflow.po.program import Program
from dtsflow.po.resize import can_shrink, choose_scales, shrink
from dtsflow.seed.address import pass_words
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType

found = load()
if found is None:
    pytest.skip("the native core was not built", allow_module_level=True)
core: ModuleType = found

PHOTO = ImageSpec(None, None, 3)
IMAGENET = Normalize(preset="imagenet")
CHAINS: dict[str, tuple[Operation, ...]] = {
    "train": (RandomResizedCrop(224), RandomHorizontalFlip(), IMAGENET),
    "hardly ever fits": (RandomResizedCrop(9, scale=(0.9, 1.0), ratio=(0.2, 5.0)),),
    "never fits": (RandomResizedCrop((7, 9), scale=(1.0, 1.0), ratio=(40.0, 1000.0)),),
    "nor the other way": (RandomResizedCrop((7, 9), scale=(1.0, 1.0), ratio=(0.001, 0.02)),),
    "fast": (FastRandomResizedCrop((32, 48), scale=(0.001, 1.0)), RandomVerticalFlip(p=0.3)),
    "val": (Resize(256), CenterCrop(224), IMAGENET),
    "odd centres": (CenterCrop((51, 4)), CenterCrop((70, 3))),
    "exact": (Resize((30, 77), fit="exact"), RandomHorizontalFlip(p=1.0)),
    "square": (Resize(41, fit="square"), RandomHorizontalFlip(p=0.0)),
    "cifar": (RandomCrop(32, padding=4), RandomHorizontalFlip(), Normalize(preset="cifar")),
    "uneven padding": (RandomCrop((40, 400), padding=(1, 20, 300, 0)),),
    "upstream's padding": (RandomCrop((90, 400), padding=(3, 5), compat="upstream"),),
    "two crops": (Resize(99), DoNothing(), RandomResizedCrop(50), RandomCrop(20)),
    "first of two middles": (CenterCrop((51, 4), compat="upstream"),),
    "vgg": (
        RandomResizedCrop(224),
        RandomHorizontalFlip(),
        ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1),
        IMAGENET,
        RandomErasing(p=0.25),
    ),
    "digits": (
        Pad(2),
        RandomCrop(28),
        RandomRotation(20, interpolation="bilinear"),
        RandomScale(0.8, 1.2),
        IMAGENET,
        RandomErasing(p=0.5),
    ),
    "randaugment": (RandomResizedCrop(224), RandomHorizontalFlip(), RandAugment(), IMAGENET),
    "augmentations": (
        RandAugment(5, magnitude=40, num_magnitude_bins=41, fill=(1, 2, 3)),
        TrivialAugmentWide(7, interpolation="bilinear"),
        TrivialAugmentWide(fill=255),
        CenterCrop(9),
    ),
    "borders": (
        Pad((1, 2, 300, 4), padding_mode="reflect"),
        RandomCrop((40, 90), padding=5, fill=(9, 8, 7)),
        RandomCrop((60, 70), padding_mode="symmetric", compat="upstream"),
        Pad((3, 0), fill=5),
        Pad(0, padding_mode="edge", fill=1),
        CenterCrop(8),
    ),
    "maps": (
        RandomAffine((-170, 360), (0.3, 1.0), (0.01, 100.0), (-80, 80, -70, 60), "bilinear", 7),
        RandomAffine(0),
        RandomAffine(10, shear=20, fill=(0, 0, 200)),
        RandomAffine((5, 5), shear=(-3, 4)),
        RandomRotation((-360, 360)),
        RandomRotation((0.03, 0.07), interpolation="bilinear", compat="upstream"),
        RandomScale(0.001, 10, antialias=False),
        CenterCrop(8),
    ),
    "values": (
        ColorJitter(brightness=(0, 1e4), contrast=0.5, saturation=(0.3, 0.3), hue=(-0.5, 0.5)),
        ColorJitter(hue=(-0.2, -0.1)),
        ColorJitter(),
        RandomGrayscale(0.5),
        RandomAutocontrast(0.3),
        GaussianBlur(59, (1e-3, 1e3)),
        GaussianBlur(1),
        GaussianBlur(9),
        GaussianNoise(3.3, 12.1),
        CenterCrop((30, 20)),
        RandomErasing(1, (0.9, 1.0), (0.01, 100)),
    ),
}


class Upside(RandomVerticalFlip):
    """Draws as what it inherits from, and does not say so."""


@configurable
class SmallCrop(RandomResizedCrop):
    """Draws otherwise than what it inherits from."""

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Half of the sides."""
        return super().draw(draws, sizes // 2)


sides = st.integers(1, 65535) | st.integers(1, 500)
samples = st.lists(
    st.tuples(st.integers(0, (1 << 40) - 1), sides, sides).filter(
        lambda sample: sample[1] * sample[2] <= 178_956_970
    ),
    min_size=1,
    max_size=8,
)


def fused(operations: tuple[Operation, ...]) -> FusedProgram:
    return FusedProgram(core, operations, Chain(operations).specs(PHOTO), 3)


def drawn(
    operations: tuple[Operation, ...],
    ids: npt.NDArray[np.int64],
    sizes: Sizes,
    address: tuple[int, int, int, int],
    *,
    shrinks: bool = False,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """What the core draws: (steps, samples, numbers), and a status a sample."""
    steps = drawings(operations)
    assert steps is not None
    params = np.full((len(ids), len(steps), STEP_NUMBERS), -7, np.int32)
    status = np.full(len(ids), -7, np.int32)
    shapes = sizes.astype(np.int32)
    others = core.draw_chunk(core.Drawings(steps), shapes, ids, address, shrinks, params, status)
    assert others == np.count_nonzero(status)
    return params.swapaxes(0, 1), status


def expected(
    operations: tuple[Operation, ...],
    ids: npt.NDArray[np.int64],
    sizes: Sizes,
    where: tuple[int, int, int, int],
    *,
    shrinks: bool,
) -> npt.NDArray[np.int32]:
    """The same by the reference, packed as the core would be given it."""
    seed, epoch, phase, view = where
    program = Chain(operations).program(PHOTO)
    params, traced = program.draw_with_sizes(
        seed=seed, ids=ids, epoch=epoch, phase=phase, view=view, sizes=sizes
    )
    scales = np.ones(len(ids), np.int64)
    if shrinks:
        scales = choose_scales(params[0], traced[1])
        params[0] = shrink(params[0], scales)
    made = fused(operations)
    return made._pack(DrawnParams(params, traced, scales), made._last)


@pytest.mark.parametrize("shrinks", [False, True])
@pytest.mark.parametrize("name", CHAINS)
@settings(deadline=None, max_examples=60)
@given(
    samples=samples,
    where=st.tuples(
        st.integers(0, (1 << 64) - 1),
        st.integers(0, (1 << 32) - 1),
        st.integers(0, 15),
        st.integers(0, 255),
    ),
)
@example([((1 << 40) - 1, 1, 1), (0, 1, 65535), (1, 65535, 1)], ((1 << 64) - 1, 0, 15, 255))
@example([(n, 375, 500) for n in range(8)], (7, 1, 0, 0))
def test_the_core_draws_what_numpy_draws(
    name: str,
    shrinks: bool,  # noqa: FBT001  # pytest passes it by name
    samples: list[tuple[int, int, int]],
    where: tuple[int, int, int, int],
) -> None:
    operations = CHAINS[name]
    shrinks = shrinks and can_shrink(operations)
    ids = np.array([sample[0] for sample in samples], np.int64)
    sizes = np.array([sample[1:] for sample in samples], np.int64)
    params, status = drawn(operations, ids, sizes, pass_words(*where), shrinks=shrinks)
    reference = expected(operations, ids, sizes, where, shrinks=shrinks)
    ours = status == Status.OK
    assert np.array_equal(params[:, ours], reference[:, ours])
    assert (status[~ours] == Status.NOT_OURS).all()
    # Left to the reference is only what becomes absurdly big or long on its way.
    left = reference[:, ~ours, 4:6].astype(np.int64)
    is_absurd = (left.prod(axis=2) > MAX_PIXELS) | (left.max(axis=2) > 1 << 24)
    assert is_absurd.any(axis=0).all()
    assert ours[(sizes < 2000).all(axis=1)].all()


THOUSANDS = ("train", "hardly ever fits", "fast", "two crops", "vgg", "digits", "randaugment",
             "augmentations", "borders", "maps", "values")  # fmt: skip


@pytest.mark.parametrize("name", THOUSANDS)
def test_many_thousand_windows_agree(name: str) -> None:
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 1 << 40, 20_000)
    sizes = rng.integers(1, 4_000, (20_000, 2))
    where = (123, 4, 0, 0)
    params, status = drawn(CHAINS[name], ids, sizes, pass_words(*where))
    assert not status.any()
    assert np.array_equal(params, expected(CHAINS[name], ids, sizes, where, shrinks=False))


HALF = (RandomResizedCrop(40), Upside(), RandomHorizontalFlip(), SmallCrop(30), RandAugment(),
        IMAGENET, RandomErasing())  # fmt: skip


PARTLY: dict[str, tuple[Operation, ...]] = {
    "half of it in NumPy": HALF,
    "Normalize alone": (CenterCrop(9), Upside(), IMAGENET),
    "all in NumPy": (SmallCrop(9),),
}


def draw_both(
    operations: tuple[Operation, ...], ids: npt.NDArray[np.int64], sizes: Sizes
) -> Iterator[tuple[Params | Sizes, Params | Sizes]]:
    """Parameters, then sizes: those of a program with the core, and of one without."""
    specs = Chain(operations).specs(PHOTO)
    drawn = [
        Program(operations, specs, one).draw_with_sizes(
            seed=9, ids=ids, epoch=3, phase=1, view=2, sizes=sizes
        )
        for one in (core, None)
    ]
    for made, wanted in zip(*drawn, strict=True):
        yield from zip(made, wanted, strict=True)


@pytest.mark.parametrize("name", [*CHAINS, *PARTLY])
def test_a_program_with_the_core_draws_the_rows_that_numpy_draws(name: str) -> None:
    rng = np.random.default_rng(3)
    ids, sizes = rng.integers(0, 1 << 40, 300), rng.integers(1, 2_000, (300, 2))
    for made, wanted in draw_both({**CHAINS, **PARTLY}[name], ids, sizes):
        assert made.dtype == wanted.dtype
        assert made.shape == wanted.shape
        assert made.tobytes() == wanted.tobytes()


def test_a_program_leaves_a_chunk_with_an_absurd_image_to_numpy() -> None:
    sizes = np.array([[1, 60_000], [60, 60]])
    for made, wanted in draw_both((Resize(3000), RandomCrop(9)), np.arange(2), sizes):
        assert made.tobytes() == wanted.tobytes()


def test_an_id_without_room_in_an_address_is_left_to_the_reference() -> None:
    ids = np.array([-1, 0, 1 << 40], np.int64)
    sizes = np.full((3, 2), 50)
    status = drawn(CHAINS["train"], ids, sizes, pass_words(0, 0, 0, 0))[1]
    assert status.tolist() == [Status.NOT_OURS, Status.OK, Status.NOT_OURS]


def test_an_image_that_becomes_absurdly_big_is_left_to_the_reference() -> None:
    chain = (Resize(3000), CenterCrop(9))
    sizes = np.array([[1, 60_000], [60_000, 1], [60, 60]])
    status = drawn(chain, np.arange(3), sizes, pass_words(0, 0, 0, 0))[1]
    assert status.tolist() == [Status.NOT_OURS, Status.NOT_OURS, Status.OK]


@pytest.mark.parametrize(
    "operations",
    [(SmallCrop(9),), (RandomResizedCrop(9), SmallCrop(9), RandomHorizontalFlip())],
)
def test_a_chain_that_the_core_cannot_draw_for_has_no_recipe(
    operations: tuple[Operation, ...],
) -> None:
    assert drawings(operations) is None
    assert fused(operations).recipe(None, apply_orientation=False, shrinks=False) is None


def test_positions_count_what_has_no_step() -> None:
    found = drawings((RandomHorizontalFlip(), IMAGENET, DoNothing()))
    assert found == [(DrawKind.FLIP, 0, (0.5,)), (DrawKind.FLIP, 2, (0.0,))]


def program_of_flips(count: int) -> Any:
    none = np.empty(0, np.float32)
    return core.Program(
        [int(StepKind.MIRROR)] * count,
        encoded=False,
        channels=1,
        stored_channels=1,
        cast=CASTS[DType.UINT8],
        scale=none,
        offset=none,
        table=np.empty(0, np.uint8),
    )


def recipe_of_flips(pixels: tuple[int, int] = (2, 3), out: tuple[int, int] = (2, 3)) -> Any:
    return core.Recipe(
        program_of_flips(1),
        core.Drawings([(DrawKind.FLIP, 0, [1.0])]),
        pixels,
        turns=False,
        shrinks=False,
        out=out,
    )


def fill(
    recipe: Any, memory: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8], **words: Any
) -> int:
    """One sample of six bytes."""
    status = np.full(1, -7, np.int32)
    core.fill_chunk(
        recipe,
        memory,
        np.array([words.get("offset", 0)], np.int64),
        np.array([6], np.int64),
        np.arange(words.get("ids", 1)),
        (1, 2, 3, 4),
        out,
        words.get("first", 0),
        np.array([words.get("row", 0)], np.int64),
        status,
    )
    return int(status[0])


def test_a_recipe_keeps_its_program() -> None:
    recipe = recipe_of_flips()
    gc.collect()
    memory, out = np.arange(6, dtype=np.uint8), np.zeros(14, np.uint8)
    assert fill(recipe, memory, out, first=1, row=1) == Status.OK
    assert out.tolist() == [0] * 7 + [2, 1, 0, 5, 4, 3, 0]


def test_a_row_of_another_size_than_what_comes_out_is_not_written() -> None:
    memory, out = np.arange(6, dtype=np.uint8), np.full(12, 9, np.uint8)
    assert fill(recipe_of_flips(out=(3, 4)), memory, out) == Status.MISFIT
    assert (out == 9).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"offset": 1}, "outside the memory"),
        ({"offset": -1}, "outside the memory"),
        ({"row": 1}, "outside the output"),
        ({"first": 3}, "outside the output"),
        ({"first": 9}, "outside the output"),
        ({"first": -1}, "outside the output"),
        ({"row": -1}, "outside the output"),
        ({"ids": 2}, "one id"),
    ],
)
def test_nothing_outside_the_arrays_is_touched(words: dict[str, int], message: str) -> None:
    memory, out = np.zeros(6, np.uint8), np.zeros(8, np.uint8)
    with pytest.raises(ValueError, match=message):
        fill(recipe_of_flips(), memory, out, **words)


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        ([], "one drawing a step"),
        ([(19, 0, [])], "unknown drawing"),
        ([(-1, 0, [])], "unknown drawing"),
        ([(0, 0, [1.0] * 13)], "12 numbers"),
    ],
)
def test_a_recipe_refuses_what_it_does_not_know(drawing: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        core.Recipe(
            program_of_flips(1),
            core.Drawings(drawing),
            (1, 1),
            turns=False,
            shrinks=False,
            out=(1, 1),
        )
