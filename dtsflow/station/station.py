"""How the station is configured."""

from typing import Annotated, Literal

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.memory.region import Region
from dtsflow.memory.slot import padded_channels
from dtsflow.tensor.dtype import DType


@configurable
class Station:
    """The two zones between the workers and the consumer.

    Attributes:
        channel_align: 4 pads the channels of FP16 and BF16 pixels to a multiple of 4, 1
            packs them. The slot reserves the padded size either way.
        timeout_s: Seconds the consumer waits for a batch before the run ends with a
            `StallError`.
        poison: Fill a released zone with 0xFF, to find code that reads too late.
    """

    channel_align: Literal[1, 4] = 4
    timeout_s: Annotated[float, Field(gt=0, le=30 * 86_400)] = 300.0
    poison: bool = False

    def stored_channels(self, channels: int, dtype: DType) -> int:
        """Channels that a pixel occupies in the zone."""
        if self.channel_align == 1:
            return channels
        return padded_channels(channels, dtype, Region.I_A_DATA)
