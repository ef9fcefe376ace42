"""How the records of a plugin's loader become fields."""

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.decode.on_error import MaxErrors, OnError
from dtsflow.decode.parser import Parser


@configurable
class Parse:
    """Let `parser` turn records into the named fields of a batch.

    `on_error` is what becomes of a bad record; `max_errors`, a safety stop, ends the
    run after more.
    """

    parser: Parser
    on_error: OnError = "raise"
    # No row depends on it, so the repr, which digests are made of, leaves it out.
    max_errors: MaxErrors = Field(default=None, repr=False)

    def describe(self) -> str:
        """Which parser, for the plan."""
        return type(self.parser).__name__
