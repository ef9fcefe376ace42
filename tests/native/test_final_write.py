"""The one write to a row, mirrored or not, against the reference of Normalize."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dtsflow.native.core import CASTS, STEP_NUMBERS, Status, StepKind, load
from dtsflow.po import Normalize
from dtsflow.po.operation import NOTHING
from dtsflow.tensor.dtype import DType

found = load()
if found is None:
    pytest.skip("the native core was not built", allow_module_level=True)
core: ModuleType = found

LEVELS = [level for level in ("portable", "avx2") if core.force_cpu_level(level)]
GUARD = 64  # bytes around the row, which no write may touch


@pytest.fixture(scope="module", params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    assert core.force_cpu_level(request.param)
    yield request.param
    core.force_cpu_level(LEVELS[-1])


def normalize(dtype: DType, channels: int) -> Normalize:
    if dtype is DType.UINT8:
        return Normalize(preset="none", dtype=DType.UINT8)
    mean = (0.485, 0.456, 0.406, 0.5)[:channels]
    return Normalize(mean=mean, std=(0.229, 0.224, 0.225, 0.25)[:channels], dtype=dtype)


def written(
    image: npt.NDArray[np.uint8], operation: Normalize, stored: int, *, mirrored: bool, at: int
) -> npt.NDArray[np.uint8]:
    """The bytes of the row, which begins at byte `at` of guarded memory."""
    height, width, channels = image.shape
    finish = operation.finish(channels)
    program = core.Program(
        [int(StepKind.MIRROR)],
        encoded=False,
        channels=channels,
        stored_channels=stored,
        cast=CASTS[finish.dtype],
        scale=finish.scale,
        offset=finish.offset,
        table=np.ascontiguousarray(finish.table).view(np.uint8).reshape(-1),
    )
    params = np.zeros((1, 1, STEP_NUMBERS), np.int32)
    params[..., 0] = mirrored
    size = height * width * stored * finish.dtype.itemsize
    memory = np.full(at + size + GUARD + 64, 0xA5, np.uint8)
    out = memory[-memory.ctypes.data % 64 :][: at + size + GUARD]
    sides, status = np.array([[height, width]], np.int32), np.full(1, -7, np.int32)
    core.run_chunk(
        program,
        image.reshape(-1),
        np.zeros(1, np.int64),
        np.array([image.size], np.int64),
        sides,
        params,
        out,
        np.array([at], np.int64),
        sides,
        status,
    )
    assert status[0] == Status.OK
    assert (out[:at] == 0xA5).all()
    assert (out[at + size :] == 0xA5).all()
    return out[at : at + size]


def wanted(
    image: npt.NDArray[np.uint8], operation: Normalize, stored: int, *, mirrored: bool
) -> bytes:
    height, width, channels = image.shape
    padded: npt.NDArray[Any] = np.zeros((height, width, stored), operation.dtype.numpy)
    shown = image[:, ::-1] if mirrored else image
    operation.apply(shown, padded[..., :channels], np.empty(1, NOTHING)[0])
    return padded.tobytes()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("mirrored", [False, True], ids=["straight", "mirrored"])
@pytest.mark.parametrize(
    ("channels", "stored"), [(1, 1), (1, 4), (2, 2), (3, 3), (3, 4), (3, 5), (4, 4), (4, 8)]
)
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.FP16, DType.BF16, DType.FP32])
def test_a_row_is_what_the_reference_writes_and_nothing_beside_it(
    dtype: DType,
    channels: int,
    stored: int,
    mirrored: bool,  # noqa: FBT001  # pytest passes it by name
) -> None:
    operation = normalize(dtype, channels)
    rng = np.random.default_rng(channels)
    for height, width in [(3, width) for width in range(1, 35)] + [(131, 126), (130, 127)]:
        image = rng.integers(0, 256, (height, width, channels), np.uint8)
        expected = wanted(image, operation, stored, mirrored=mirrored)
        for at in (GUARD, GUARD + operation.dtype.itemsize):  # streamed, and not
            made = written(image, operation, stored, mirrored=mirrored, at=at)
            assert made.tobytes() == expected, (height, width, at)
