"""The core's geometric steps against their references, bit for bit."""

import random
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest

from dtsflow.decode.turbojpeg import TurboDecoder
from dtsflow.native.core import Status, load
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
    RandomAffine,
    RandomAutocontrast,
    RandomCrop,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomScale,
    RandomVerticalFlip,
    Resize,
)
from dtsflow.po.affine import Interpolation
from dtsflow.po.geometry import BORDERS
from dtsflow.po.native import DrawnParams, EncodedSamples, FusedProgram, Rows, divide
from dtsflow.po.operation import Fill, Operation
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType
from dtsflow.testing import jpeg

found = load()
if found is None:
    pytest.skip("the native core was not built", allow_module_level=True)
core: ModuleType = found

LEVELS = [level for level in ("portable", "avx2") if core.force_cpu_level(level)]
Pixels = npt.NDArray[np.uint8]


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each set of instructions that this processor has; the best one afterwards."""
    assert core.force_cpu_level(request.param)
    yield request.param
    core.force_cpu_level(LEVELS[-1])


def both(
    operations: tuple[Operation, ...], image: Pixels, number: int, data: bytes | None = None
) -> tuple[Pixels, Pixels]:
    """What the reference and the core make of sample `number`.

    The core gets `data`, a JPEG of the image, if it is given. The chain must be native
    from end to end, so that no reference can stand in.
    """
    height, width, channels = image.shape
    first = ImageSpec(height, width, channels)
    chain = Chain(operations)
    program = chain.program(first)
    sizes = np.array([[height, width]], np.int64)
    params, traced = program.draw_with_sizes(
        seed=7, ids=np.array([number]), epoch=1, phase=0, sizes=sizes
    )
    last = program.out_spec
    shape = (*traced[-1][0].tolist(), channels)
    wanted = np.full(shape, 0xAA, last.dtype.numpy)
    program.run(image, wanted, params, 0, traced)
    made = np.full(shape, 0x55, last.dtype.numpy)
    assert [part.is_native for part in divide(operations)] == [True]
    stored = EncodedSamples.of(image)
    if data is not None:
        memory = np.frombuffer(data, np.uint8)
        stored = EncodedSamples(
            memory, np.zeros(1, np.int64), np.array([len(memory)]), stored.shapes
        )
    status = FusedProgram(core, operations, chain.specs(first), channels).run(
        stored,
        DrawnParams(params, traced, np.ones(1, np.int64)),
        Rows(
            made.view(np.uint8).reshape(-1),
            np.zeros(1, np.int64),
            made[None],
            np.zeros(1, np.int64),
            channels,
        ),
        encoded=data is not None,
    )
    assert status.tolist() == [Status.OK]
    return wanted, made


def random_operation(rng: random.Random, channels: int) -> Operation:
    """Any geometric operation with any options."""
    colours: list[Fill] = [0, 200, tuple(rng.randrange(256) for _ in range(channels))]
    samplings: list[Interpolation] = ["nearest", "bilinear"]
    colour, sampling = rng.choice(colours), rng.choice(samplings)
    left, top, right, bottom = (rng.randrange(9) for _ in range(4))
    kinds: list[Operation] = [
        RandomVerticalFlip(),
        RandomHorizontalFlip(),
        DoNothing(),
        Pad(
            (left, top, right, bottom),
            fill=colour,
            padding_mode=rng.choice(BORDERS),
        ),
        RandomCrop(
            (rng.randrange(1, 50), rng.randrange(1, 50)),
            padding=rng.randrange(9),
            fill=colour,
            padding_mode=rng.choice(BORDERS),
            compat=rng.choice(["torchvision", "upstream"]),
        ),
        RandomRotation(180, interpolation=sampling, fill=colour),
        RandomRotation(90, interpolation="bilinear", fill=colour, compat="upstream"),
        RandomAffine(60, (0.4, 0.4), (0.3, 3), (-30, 30, -30, 30), sampling, colour),
        RandomScale(0.3, 1.8, antialias=rng.random() < 0.5),
        FastRandomResizedCrop(rng.randrange(1, 40)),
        Resize((rng.randrange(1, 40), rng.randrange(1, 40)), fit="exact"),
        CenterCrop((rng.randrange(1, 40), rng.randrange(1, 40))),
    ]
    return rng.choice(kinds)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_any_chain_on_an_image_of_any_size_is_the_reference(seed: int, channels: int) -> None:
    rng = random.Random(seed)
    for number in range(60):
        side = rng.choice([1, 2, 5, 40, 90])
        shape = (rng.randint(1, side), rng.randint(1, side), channels)
        image = np.random.default_rng((seed, number)).integers(0, 256, shape, np.uint8)
        count = rng.randint(1, 4)
        operations = tuple(random_operation(rng, channels) for _ in range(count))
        wanted, made = both(operations, image, number)
        assert np.array_equal(made, wanted), (shape, operations)


STEPS: list[Operation] = [
    RandomVerticalFlip(1.0),
    DoNothing(),
    Pad((3, 4, 5, 6), fill=(1, 2, 3)),
    Pad(200, padding_mode="reflect"),
    Pad((90, 3), padding_mode="symmetric"),
    RandomCrop(70, padding=20, padding_mode="edge"),
    RandomRotation(180),
    RandomRotation(180, interpolation="bilinear", fill=(9, 8, 7)),
    RandomRotation(180, interpolation="bilinear", compat="upstream"),
    RandomAffine(30, (0.2, 0.2), (0.6, 1.6), 20, "bilinear"),
    RandomScale(0.5, 1.5),
    FastRandomResizedCrop(33),
]


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("operation", STEPS, ids=repr)
def test_a_jpeg_that_an_operation_begins_with_is_decoded_as_far_as_it_needs(
    operation: Operation,
) -> None:
    data = jpeg(61, 83, seed=4)
    image = TurboDecoder("ignore").decode(data)
    ends = (RandomHorizontalFlip(), Normalize(preset="imagenet", dtype=DType.FP16))
    for number in range(8):
        wanted, made = both((operation, *ends), image, number, data)
        assert np.array_equal(made.view(np.uint16), wanted.view(np.uint16)), number


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("operation", STEPS, ids=repr)
def test_a_mirror_before_an_operation_stays_before_it(operation: Operation) -> None:
    image = np.random.default_rng(3).integers(0, 256, (37, 52, 3), np.uint8)
    for number in range(4):
        chain = (RandomHorizontalFlip(1.0), operation, RandomVerticalFlip(), RandomResizedCrop(9))
        wanted, made = both(chain, image, number)
        assert np.array_equal(made, wanted)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("side", [63, 64, 65, 128])
def test_no_row_of_a_warp_spills_into_another(side: int) -> None:
    image = np.random.default_rng(3).integers(0, 256, (side, side, 3), np.uint8)
    for number in range(20):
        turned = RandomRotation(180, interpolation="bilinear", fill=(255, 0, 255))
        wanted, made = both((turned, RandomVerticalFlip(), turned), image, number)
        assert np.array_equal(made, wanted)


@pytest.mark.usefixtures("level")
def test_colours_of_an_image_whose_rows_are_read_upwards_are_the_reference() -> None:
    image = np.random.default_rng(3).integers(0, 256, (37, 52, 3), np.uint8)
    colours: list[Operation] = [
        ColorJitter(0.4, 0.4, 0.4, 0.2),
        GaussianBlur(5),
        RandomGrayscale(1.0),
        RandomAutocontrast(1.0),
        GaussianNoise(),
    ]
    for number, colour in enumerate(colours):
        chain = (RandomVerticalFlip(1.0), colour, RandomVerticalFlip(1.0))
        wanted, made = both(chain, image, number)
        assert np.abs(made.astype(int) - wanted).max() <= 1, colour
