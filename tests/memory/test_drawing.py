import pytest

from dtsflow.memory.drawing import draw, human_bytes
from dtsflow.memory.region import Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (154_141_184, "147.0 MiB"),
        (3 * 2**30, "3.0 GiB"),
        (5 * 2**50, "5120.0 TiB"),
    ],
)
def test_sizes_are_written_with_a_fitting_unit(nbytes: int, text: str) -> None:
    assert human_bytes(nbytes) == text


def test_a_plan_is_drawn_with_columns_that_line_up() -> None:
    tensors = [
        DTensor(0, "labels", Shape(2, 1, 1, 1), DType.INT32, Region.I_A_LABEL, 512, 0),
        DTensor(1, "", Shape(2, 64, 64, 3), DType.FP16, Region.I_A_DATA, 65_792, 512),
    ]
    assert draw(tensors, 66_304).splitlines() == [
        "region     name       shape        dtype  offset  slot bytes      size",
        "-" * 70,
        "I_A_LABEL  labels     [2,1,1,1]    INT32       0         512     512 B",
        "I_A_DATA              [2,64,64,3]  FP16      512      65,792  64.2 KiB",
        "-" * 70,
        "total      2 tensors                                  66,304  64.8 KiB",
    ]


def test_an_empty_plan_can_be_drawn() -> None:
    assert draw([], 0).splitlines()[-1].split() == ["total", "0", "tensors", "0", "0", "B"]
