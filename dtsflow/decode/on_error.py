"""What becomes of a bad sample, as `decode.on_error` says."""

from typing import Annotated, Literal

from pydantic import Field

OnError = Literal["raise", "replace", "mask"]
"""`raise` ends the run with an error that names the sample; `replace` puts the next
good sample of its block in its row; `mask` leaves the row empty, `valid` False."""

MaxErrors = Annotated[int, Field(ge=0, strict=True)] | None
"""More bad samples than this end the run; None: any number may come."""
