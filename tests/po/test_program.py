import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, lists, tuples
from PIL import Image as PillowImage

from dtsflow.po import (
    CenterCrop,
    Chain,
    ColorJitter,
    GaussianBlur,
    GaussianNoise,
    Normalize,
    RandAugment,
    RandomAutocontrast,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    TrivialAugmentWide,
)
from dtsflow.po.operation import Draws, Operation, Params
from dtsflow.po.program import Program
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType

PHOTO = ImageSpec(None, None, 3)
EVERY: tuple[Operation, ...] = (
    RandomResizedCrop(9),
    CenterCrop(9),
    Resize(9),
    Resize((9, 7), fit="exact"),
    Resize(9, fit="square"),
    RandomHorizontalFlip(),
    ColorJitter(0.4, 0.4, 0.4, 0.1),
    GaussianBlur(5),
    GaussianNoise(),
    RandAugment(),
    TrivialAugmentWide(),
    RandomAutocontrast(),
    RandomErasing(),
    RandomGrayscale(),
    Normalize(preset="imagenet"),
)
STEPS: tuple[Operation, ...] = (
    Resize(20),
    RandomHorizontalFlip(),
    RandomResizedCrop(12),
    CenterCrop(10),
    RandomHorizontalFlip(),
    Normalize(preset="imagenet"),
)
LONG = Chain(STEPS)


def photo(height: int, width: int, channels: int = 3) -> npt.NDArray[np.uint8]:
    rng = np.random.default_rng((height, width))
    return rng.integers(0, 256, (height, width, channels), np.uint8)


def draw(
    program: Program, ids: list[int], sizes: list[tuple[int, int]], epoch: int = 0
) -> list[Params]:
    return program.draw(seed=7, ids=np.array(ids), epoch=epoch, phase=0, sizes=np.array(sizes))


@pytest.mark.parametrize("operation", EVERY)
def test_no_operation_reads_beyond_its_words(operation: Operation) -> None:
    sizes = np.array([[30, 40], [1, 1], [500, 2]])
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (3, operation.words), np.uint32)
    for value in (words, np.zeros_like(words), np.full_like(words, 0xFFFFFFFF)):
        params = operation.draw(Draws(value), sizes)
        assert params.shape == (3,)
        assert operation.out_sizes(sizes, params).shape == (3, 2)


@settings(deadline=None)
@given(
    lists(
        tuples(integers(0, 2**40 - 1), integers(1, 600), integers(1, 600)), min_size=1, max_size=9
    )
)
def test_a_sample_draws_the_same_in_any_chunk(samples: list[tuple[int, int, int]]) -> None:
    program = LONG.program(PHOTO)
    ids = [sample[0] for sample in samples]
    sizes = [sample[1:] for sample in samples]
    together = draw(program, ids, sizes)
    assert [len(params) for params in together] == [len(samples)] * 6
    for i, (sample, size) in enumerate(zip(ids, sizes, strict=True)):
        alone = draw(program, [sample], [size])
        assert [p[i].item() for p in together] == [p[0].item() for p in alone]


def test_epochs_samples_and_positions_draw_apart() -> None:
    chain = Chain((RandomHorizontalFlip(), RandomHorizontalFlip(), CenterCrop(4)))
    program = chain.program(PHOTO)
    ids = list(range(64))
    first, second, _ = draw(program, ids, [(9, 9)] * 64)
    later, *_ = draw(program, ids, [(9, 9)] * 64, epoch=1)
    flips = {params["flip"].tobytes() for params in (first, second, later)}
    assert len(flips) == 3
    assert all(10 < params["flip"].sum() < 54 for params in (first, second, later))


def test_the_chain_is_its_operations_one_after_another() -> None:
    program = LONG.program(PHOTO)
    out = np.empty((10, 10, 3), np.float32)
    sizes = [(33, 47), (5, 61), (1, 1), (300, 200)]
    params = draw(program, [0, 1, 2, 3], sizes)
    for i, size in enumerate(sizes):
        image = photo(*size)
        program.run(image, out, params, i)
        expected = image
        for operation, rows in zip(STEPS, params, strict=True):
            shape = operation.out_sizes(np.array([expected.shape[:2]]), rows[i : i + 1])[0]
            fresh = np.zeros((*shape, 3), out.dtype if operation is LONG.normalize else np.uint8)
            operation.apply(expected, fresh, rows[i])
            expected = fresh
        assert np.array_equal(out, expected)


def test_scratch_never_shows_the_sample_before() -> None:
    chain = Chain((Resize(40), CenterCrop(50)))
    used, fresh = chain.program(PHOTO), chain.program(PHOTO)
    big = np.full((90, 400, 3), 255, np.uint8)
    small = np.full((30, 30, 3), 9, np.uint8)
    params = draw(used, [0, 1], [(90, 400), (30, 30)])
    first, after, alone = (np.full((50, 50, 3), 0xCC, np.uint8) for _ in range(3))
    used.run(big, first, params, 0)
    used.run(small, after, params, 1)
    fresh.run(small, alone, params, 1)
    assert np.array_equal(after, alone)
    assert (after[5:45, 5:45] == 9).all()
    assert after.sum() == 9 * 40 * 40 * 3


@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP16, DType.BF16, DType.UINT8])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_row_with_padded_channels_is_filled_and_its_padding_is_not(
    dtype: DType, channels: int
) -> None:
    chain = Chain((RandomResizedCrop(6), Normalize(preset="none", dtype=dtype)))
    program = chain.program(ImageSpec(None, None, channels))
    assert program.out_spec == ImageSpec(6, 6, channels, dtype)
    padded = np.full((6, 6, 4), 77, dtype.numpy)
    plain = np.full((6, 6, channels), 99, dtype.numpy)
    params = draw(program, [5], [(20, 30)])
    image = photo(20, 30, channels)
    program.run(image, padded[..., :channels], params, 0)
    program.run(image, plain, params, 0)
    assert np.array_equal(padded[..., :channels], plain)
    assert (padded[..., channels:] == 77).all()


@pytest.mark.parametrize("operation", EVERY)
def test_every_operation_fills_a_strided_row(operation: Operation) -> None:
    size = np.array([[30, 40]])
    words = np.full((1, operation.words), 0x12345678, np.uint32)
    params = operation.draw(Draws(words), size)
    shape = operation.out_sizes(size, params)[0].tolist()
    dtype = operation.out_spec(PHOTO).dtype.numpy
    padded = np.full((*shape, 4), 77, dtype)
    plain = np.full((*shape, 3), 99, dtype)
    operation.apply(photo(30, 40), padded[..., :3], params[0])
    operation.apply(photo(30, 40), plain, params[0])
    assert np.array_equal(padded[..., :3], plain)
    assert (padded[..., 3] == 77).all()


def test_an_empty_chain_copies() -> None:
    program = Chain().program(ImageSpec(4, 5, 1))
    assert draw(program, [0], [(4, 5)]) == []
    out = np.zeros((4, 5, 1), np.uint8)
    program.run(photo(4, 5, 1), out, [], 0)
    assert np.array_equal(out, photo(4, 5, 1))


def test_a_read_only_image_is_enough() -> None:
    image = photo(30, 40)
    image.flags.writeable = False
    program = LONG.program(PHOTO)
    program.run(image, np.empty((10, 10, 3), np.float32), draw(program, [0], [(30, 40)]), 0)


def test_the_validation_recipe_is_torchvisions_pil_pipeline() -> None:
    chain = Chain((Resize(25), CenterCrop(22)))
    image = photo(61, 47)
    program = chain.program(PHOTO)
    out = np.empty((22, 22, 3), np.uint8)
    program.run(image, out, draw(program, [0], [(61, 47)]), 0)
    resized = PillowImage.fromarray(image).resize((25, 32), PillowImage.Resampling.BILINEAR)
    y, x = round((32 - 22) / 2), round((25 - 22) / 2)
    assert np.array_equal(out, np.asarray(resized.crop((x, y, x + 22, y + 22))))
