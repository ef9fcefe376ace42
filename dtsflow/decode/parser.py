"""The contract of a plugin's parser: many records at once become named arrays.

The settings by which the records of a plugin's loader become fields are here, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt
import pydantic

from dtsflow.config.configurable import configurable
from dtsflow.decode.decoder import MaxErrors, OnError
from dtsflow.spec import Field

Arrays = Mapping[str, npt.NDArray[Any]]
"""Fields by name, each with a row a record."""


class Parsing(Protocol):
    """A parser at work; each worker has its own, so it may keep scratch."""

    def parse(self, records: Sequence[memoryview], out: Arrays) -> None:
        """Write all records into the arrays of `out`, record i into row i.

        Every element of every row is written. A row depends on its own record alone.
        Neither the bytes nor the arrays are kept: they belong to the caller.

        Raises:
            DecodeError, ValueError: A record is bad; says why, and which field if it is
                one. The record's place, which the loader knows, is told by whoever
                called. Then all rows may hold anything.
        """


@runtime_checkable
class Parser(Protocol):
    """A configured parser."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return what a record becomes, in the order that the batch has.

        One at least.
        """

    def start(self) -> Parsing:
        """Return a parser for one worker.

        Data that it needs for all its records is made here.
        """


@configurable
class Parse:
    """Let `parser` turn records into the named fields of a batch.

    `on_error` is what becomes of a bad record; `max_errors`, a safety stop, ends the
    run after more.
    """

    parser: Parser
    on_error: OnError = "raise"
    # No row depends on it, so the repr, which digests are made of, leaves it out.
    max_errors: MaxErrors = pydantic.Field(default=None, repr=False)

    def describe(self) -> str:
        """Return which parser, for the plan."""
        return type(self.parser).__name__
