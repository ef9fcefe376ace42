"""What a configuration says about decoding once for several epochs."""

from typing import Annotated, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import Field

MAX_FACTOR = 1 << 16

SdmpFactor = Annotated[int, Field(ge=1, le=MAX_FACTOR, strict=True)]
"""K of SDMP: epochs with equal ⌊epoch / K⌋ have the same lanes, and share a decode."""

StoreBytes = Annotated[int, Field(ge=0, strict=True)] | Literal["auto"]
"""What kept rows may occupy on each rank; `auto`: what the memory limit leaves."""


@runtime_checkable
class Reusing(Protocol):
    """A way to decode that says so; others decode in every epoch."""

    @property
    def sdmp_factor(self) -> int:
        """K: a decoded sample goes through the chain for the rest of K epochs."""

    @property
    def cpvs(self) -> bool:
        """Whether rows that are the same in all epochs are made once."""

    @property
    def store_bytes(self) -> int | Literal["auto"]:
        """Bytes that the rows kept for later epochs may occupy on each rank."""


T = TypeVar("T", bound=Reusing)


def one_of_both(decode: T) -> T:
    """Validate a way to decode: SDMP and CPVS cannot both be.

    Raises:
        ValueError: They are.
    """
    if decode.sdmp_factor > 1 and decode.cpvs:
        raise ValueError(
            f"sdmp_factor={decode.sdmp_factor} makes rows that differ from epoch to epoch, and "
            "cpvs=true keeps rows that are the same in all. Set one of them for this phase: "
            "sdmp_factor=1, or cpvs=false."
        )
    return decode
