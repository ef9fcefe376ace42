"""`decode: auto`: the fastest decoder that this machine has."""

import logging
from functools import cache

from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.decode import turbojpeg
from dtsflow.decode.decoder import (
    Decoder,
    MaxErrors,
    OnError,
    Orientation,
    SdmpFactor,
    StoreBytes,
    one_of_both,
)
from dtsflow.decode.pillow import Pillow, PillowDecoder
from dtsflow.errors import MissingPartError

log = logging.getLogger(__name__)


@configurable
class Auto:
    """Decode JPEGs with libjpeg-turbo where it is installed, all else with Pillow.

    `scaled` decodes a JPEG at a half, a quarter or an eighth where the chain begins by
    scaling it down at least as much: faster, with slightly other pixels. `on_error` is
    what becomes of a bad sample; `max_errors`, a safety stop, ends the run after more.

    With `sdmp_factor` K a sample is decoded once for K epochs: the rows of the later
    ones are made at the same time and kept. With `cpvs`, for a chain that draws
    nothing, rows are made once and kept for good. They may take `store_bytes` on each
    rank, `auto` being what the memory limit leaves; what has no room is decoded again,
    with the same pixels.
    """

    orientation: Orientation = "ignore"
    scaled: bool = False
    on_error: OnError = "raise"
    # No pixel depends on it, so the repr, which digests are made of, leaves it out.
    max_errors: MaxErrors = Field(default=None, repr=False)
    # A plan's facts have the factor; on the others no pixel depends.
    sdmp_factor: SdmpFactor = Field(default=1, repr=False)
    cpvs: bool = Field(default=False, repr=False)
    store_bytes: StoreBytes = Field(default="auto", repr=False)

    _check = model_validator(mode="after")(one_of_both)

    @property
    def allows_native(self) -> bool:
        """Yes: it is the same libjpeg-turbo, or gives the same pixels."""
        return True

    def start(self) -> Decoder:
        """Make the decoder of one worker.

        Where libjpeg-turbo is missing it is Pillow's, which gives the same pixels, and
        the process logs one warning.
        """
        try:
            return turbojpeg.TurboDecoder(self.orientation)
        except MissingPartError as missing:
            _warn(str(missing))
            return PillowDecoder(self.orientation)

    def describe(self) -> str:
        """Name the library and its version, for the plan."""
        try:
            turbojpeg.load()
        except MissingPartError as missing:
            return f"{Pillow(self.orientation).describe()} ({missing})"
        return f"turbojpeg {turbojpeg.turbo_version()}"


@cache  # so every worker may call it, and the process says it once
def _warn(reason: str) -> None:
    log.warning("JPEGs are decoded by Pillow, which is slower: %s", reason)
