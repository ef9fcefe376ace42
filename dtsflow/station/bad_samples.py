"""What becomes of bad samples: an error, a substitute, or a row without a sample."""

import dataclasses
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dtsflow.decode.on_error import OnError
from dtsflow.errors import BlockError, DecodeError, DtsflowError
from dtsflow.reader.order import Rows
from dtsflow.reader.samples import Samples
from dtsflow.station.engine import Address, Bad, Engine, Places, fill_others
from dtsflow.station.substitutes import Substitutes
from dtsflow.station.zone import Zone
from dtsflow.volume.data_set import DataSet

# What to do where no sample is good, by whether samples are records.
_MEND = {
    False: "Copy or pack the volumes again; `dtsflow verify` says what is damaged.",
    True: "Mend them at their source, or see whether decode.parser is for such records.",
}


@dataclass(frozen=True, slots=True)
class BadSample:
    """A bad sample that a row should have had.

    Attributes:
        row: The row, among those of this rank.
        sample_id: Its id.
        label: Its label; None where the whole block is damaged, and labels with it, and
            of a record, which has none.
        where: Its file, block and index; of a record what its loader says, as file and
            line.
        reason: Why it is bad.
        substitute: The sample_id that the row has instead; None in a masked row.
    """

    row: int
    sample_id: int
    label: int | None
    where: str
    reason: str
    substitute: int | None

    @property
    def named(self) -> str:
        """Its place, its label if it has one, and its id, in words."""
        label = "" if self.label is None else f"label {self.label}, "
        return f"{self.where} ({label}sample_id {self.sample_id})"


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Rows to be written: where each sample comes from, its bytes, and its place."""

    rows: Rows
    samples: Samples
    zone: Zone
    places: Places


class BadSamples:
    """Deals with the bad samples of one pass; its workers share it.

    Args:
        on_error: What becomes of one.
        volumes: The data set.
        substitutes: What to choose from.
        address: What the draws of the pass are addressed by.
        stop: Whether the pass has ended, so that a long search may, too.
    """

    def __init__(
        self,
        on_error: OnError,
        volumes: DataSet,
        substitutes: Substitutes,
        address: Address,
        stop: Callable[[], bool],
    ) -> None:
        self._on_error = on_error
        self._volumes = volumes
        self._substitutes = substitutes
        self._address = address
        self._stop = stop
        self._found: dict[int, list[BadSample]] = {}
        self._lock = threading.Lock()

    def fill(self, step: int, chunk: Chunk, engine: Engine) -> None:
        """Write a chunk of batch `step` whole: pixels, labels, columns, ids, `valid`.

        Raises:
            DecodeError: A sample is bad and must not be, or all are; says where it
                lies, its label and its id.
            BlockError: A whole block is damaged and must not be, or is all there is.
        """
        samples, places, zone, address = chunk.samples, chunk.places, chunk.zone, self._address
        if samples.refused:
            refused: Bad = {n: DecodeError(why) for n, why in samples.refused.items()}
            bad = fill_others(engine, samples, address, zone, places, refused)
        else:
            bad = engine.fill(samples, address, zone, places)
        if bad:
            found = [self._settle(chunk, n, bad[n], engine) for n in sorted(bad)]
            with self._lock:
                self._found.setdefault(step, []).extend(found)
            good = np.delete(np.arange(len(samples)), list(bad))
            samples, places = samples.only(good), places[good]
        self._enter(samples, zone, places)

    def of_batch(self, step: int) -> list[BadSample]:
        """The bad samples of a filled batch, by row; they are given once."""
        with self._lock:
            found = self._found.pop(step, [])
        return sorted(found, key=lambda sample: sample.row)

    def _settle(self, chunk: Chunk, number: int, error: DecodeError, engine: Engine) -> BadSample:
        """Fill the row of one bad sample as it shall be."""
        samples = chunk.samples
        row, sample_id = int(chunk.places[number]), int(samples.ids[number])
        is_refused = number in samples.refused
        is_record = self._volumes.layout == "records"
        bad = BadSample(
            row=row,
            sample_id=sample_id,
            label=None if is_refused or is_record else int(samples.labels[number]),
            where=self._volumes.where(sample_id),
            reason=str(error),
            substitute=None,
        )
        block = int(chunk.rows.blocks[number])
        is_all = is_refused and self._substitutes.are_all_in(block)
        if is_all or self._on_error == "raise":
            refusal = _refusal(bad, is_refused=is_refused, is_record=is_record)
            raise refusal from (None if is_refused else error)
        if self._on_error == "mask":
            chunk.zone.clear_rows(slice(row, row + 1))
            return bad
        found = self._substitute(chunk, number, bad, engine)
        return dataclasses.replace(bad, substitute=found)

    def _substitute(self, chunk: Chunk, number: int, bad: BadSample, engine: Engine) -> int:
        """Fill the row with the next good sample, drawn for as the bad one; its id."""
        candidates = self._substitutes.instead_of(
            int(chunk.rows.blocks[number]),
            int(chunk.rows.places[number]),
            is_damaged=number in chunk.samples.refused,
            stop=self._stop,
        )
        place = chunk.places[number : number + 1]
        stands_for = chunk.samples.draw_ids[number : number + 1]
        for found in candidates:
            candidate = dataclasses.replace(found, stands_for=stands_for)
            if not engine.fill(candidate, self._address, chunk.zone, place):
                self._enter(candidate, chunk.zone, place)
                return int(candidate.ids[0])
            if engine.probe(candidate):
                self._substitutes.give_up(int(candidate.ids[0]))
        raise DecodeError(
            f"every sample of {self._substitutes.whence} is bad, so none can replace {bad.named}: "
            f"{bad.reason}. {_MEND[self._volumes.layout == 'records']}"
        )

    def _enter(self, samples: Samples, zone: Zone, places: Places) -> None:
        zone.enter_rows(places, samples.labels, samples.ids, self._volumes.columns)


def _refusal(bad: BadSample, *, is_refused: bool, is_record: bool) -> DtsflowError:
    """The error that a bad sample ends the run with."""
    if is_refused:
        return BlockError(bad.reason)
    if is_record:
        return DecodeError(
            f"{bad.named} cannot be parsed: {bad.reason}. Mend it at its source; or go on "
            "without it: decode.on_error=replace or mask."
        )
    return DecodeError(
        f"{bad.named} cannot be decoded: {bad.reason}. Replace or remove the image at its "
        "source, and pack again if it was packed; or go on without it: decode.on_error=replace "
        "or mask."
    )
