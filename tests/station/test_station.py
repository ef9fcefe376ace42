import pytest
from pydantic import ValidationError

from dtsflow.station import Station
from dtsflow.tensor.dtype import DType


@pytest.mark.parametrize(
    ("dtype", "channels", "stored"),
    [
        (DType.FP16, 3, 4),
        (DType.BF16, 1, 4),
        (DType.BF16, 4, 4),
        (DType.FP16, 5, 8),
        (DType.FP32, 3, 3),
        (DType.UINT8, 3, 3),
    ],
)
def test_channels_of_half_floats_are_padded_to_four_or_packed(
    dtype: DType, channels: int, stored: int
) -> None:
    assert Station().stored_channels(channels, dtype) == stored
    assert Station(channel_align=1).stored_channels(channels, dtype) == channels


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"channel_align": 2}, {"poison": "perhaps"}])
def test_values_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Station(**wrong)  # type: ignore[arg-type]  # that it is refused is the test


def test_people_get_five_minutes_and_no_poison_by_default() -> None:
    assert Station() == Station(channel_align=4, timeout_s=300, poison=False)
