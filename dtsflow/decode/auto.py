"""`decode: auto`: the fastest decoder that this machine has."""

import logging
from functools import cache

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.decode import turbojpeg
from dtsflow.decode.decoder import Decoder
from dtsflow.decode.on_error import MaxErrors, OnError
from dtsflow.decode.orientation import Orientation
from dtsflow.decode.pillow import Pillow, PillowDecoder
from dtsflow.errors import MissingPartError

log = logging.getLogger(__name__)


@configurable
class Auto:
    """Decode JPEGs with libjpeg-turbo where it is installed, all else with Pillow.

    `scaled` decodes a JPEG at a half, a quarter or an eighth where the chain begins by
    scaling it down at least as much: faster, with slightly other pixels. `on_error` is
    what becomes of a bad sample; `max_errors`, a safety stop, ends the run after more.
    """

    orientation: Orientation = "ignore"
    scaled: bool = False
    on_error: OnError = "raise"
    # No pixel depends on it, so the repr, which digests are made of, leaves it out.
    max_errors: MaxErrors = Field(default=None, repr=False)

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
