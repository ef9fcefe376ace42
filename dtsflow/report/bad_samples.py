"""The bad samples of a run: counted, remembered, and listed in the run folder."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dtsflow.decode.decoder import MaxErrors, OnError
from dtsflow.errors import DecodeError
from dtsflow.station.bad_samples import BadSample

log = logging.getLogger(__name__)

BAD_SAMPLES = "bad_samples.jsonl"
REMEMBERED = 1000


def bad_samples_file(rank: int | str) -> str:
    """Name of the list of a rank other than 0."""
    return f"bad_samples.rank{rank}.jsonl"


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was handed out with a substitute, or masked: one line of the list.

    Attributes:
        phase: Name of the phase.
        epoch: The epoch.
        step: The global batch.
        row: The row of it.
        sample_id: Id of the bad sample.
        label: Its label; None where the whole block is damaged, and labels with it, and
            of a record, which has none.
        where: Its file, block and index; of a record what its loader says.
        reason: Why it is bad.
        action: `replace` or `mask`.
        substitute: The sample_id that the row has instead; None in a masked row.
    """

    phase: str
    epoch: int
    step: int
    row: int
    sample_id: int
    label: int | None
    where: str
    reason: str
    action: OnError
    substitute: int | None


class BadSampleLog:
    """The log of a run's bad samples, batch by batch as they are handed out.

    Args:
        on_error: What becomes of them.
        max_errors: How many may be handed out; None: any number.
        folder: The run folder, where `bad_samples.jsonl` grows; None: nowhere.
        rank: Whose list it is; each rank has its own.

    Attributes:
        count: All of them so far.
        first: The first thousand.
    """

    def __init__(
        self, on_error: OnError, max_errors: MaxErrors, folder: Path | None, rank: int = 0
    ) -> None:
        self._on_error = on_error
        self._max_errors = max_errors
        name = bad_samples_file(rank) if rank else BAD_SAMPLES
        self._path = None if folder is None else folder / name
        self.count = 0
        self.first: list[BadRow] = []

    def take(
        self, found: Sequence[BadSample], *, phase: str, epoch: int, step: int, first_row: int
    ) -> None:
        """Enter the bad samples of a batch that is about to be handed out.

        Raises:
            DecodeError: They are more than allowed, so the batch must not be handed
                out; none of them is entered.
        """
        if self._max_errors is not None and self.count + len(found) > self._max_errors:
            last = found[self._max_errors - self.count]
            raise DecodeError(
                f"decode.max_errors={self._max_errors} bad samples were allowed, and one more was "
                f"found: {last.named}: {last.reason}. Find out what happened to the data set (to "
                "packed volumes, with `dtsflow verify --decode`), or allow more."
            )
        rows = [
            BadRow(
                phase=phase,
                epoch=epoch,
                step=step,
                row=first_row + bad.row,
                sample_id=bad.sample_id,
                label=bad.label,
                where=bad.where,
                reason=bad.reason,
                action=self._on_error,
                substitute=bad.substitute,
            )
            for bad in found
        ]
        if not self.count:
            self._warn(rows[0])
        self.count += len(rows)
        self.first += rows[: REMEMBERED - len(self.first)]
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)

    def _warn(self, row: BadRow) -> None:
        log.warning(
            "a bad sample: %s (sample_id %d): %s. decode.on_error=%s; %s",
            row.where,
            row.sample_id,
            row.reason,
            row.action,
            "run.bad_samples has the first thousand"
            if self._path is None
            else f"{self._path} lists all",
        )
