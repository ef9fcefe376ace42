"""The treatment of bad samples: an error, a substitute, or a row without a sample.

A substitute is a good sample; the file says which ones come into question, and in which
order.
"""

import dataclasses
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dtsflow.decode.decoder import OnError
from dtsflow.errors import BlockError, ClosedError, DecodeError, DtsflowError
from dtsflow.reader.order import Rows
from dtsflow.reader.random_access import Singles, singles_of
from dtsflow.reader.rows import Selection
from dtsflow.reader.store import Ints, Samples
from dtsflow.station.engine import Address, Bad, Engine, Places, fill_others
from dtsflow.station.zone import Zone
from dtsflow.volume.data_set import DataSet


class Substitutes:
    """Candidates for the place of a bad sample; the workers of a run share it.

    It remembers samples that are bad whatever is drawn, and whole damaged blocks, so
    that nobody reads them again; what is found does not depend on that. With a
    `selection` no other sample comes into question.
    """

    def __init__(self, volumes: DataSet, selection: Selection | None = None) -> None:
        self._volumes = volumes
        self._selection = selection
        # Of each block that was looked into, which samples are hopeless. Threads write
        # nothing but True, so none needs to wait for another.
        self._hopeless: dict[int, npt.NDArray[np.bool_]] = {}

    def instead_of(
        self, block: int, place: int, *, is_damaged: bool, stop: Callable[[], bool]
    ) -> Iterator[Samples]:
        """Yield all other samples one by one, those to be preferred first.

        That is the rest of the bad sample's block, in a circle from its place on; then
        the blocks after it, in a circle through the volumes, each from its first sample
        on. Of damaged blocks there is none; `is_damaged` says that its own is one.

        Raises:
            VolumeError: A block cannot be read.
            ClosedError: `stop` asked for it.
        """
        if is_damaged:
            self._give_up_block(block)
        else:
            self._singles.trust(block)
        blocks = self._volumes.num_blocks
        yield from self._of_block(block, place + 1, stop, but=place)
        for after in range(1, blocks):
            yield from self._of_block((block + after) % blocks, 0, stop)

    def give_up(self, sample_id: int) -> None:
        """Never again offer a sample, for it is bad whatever is drawn."""
        block, place = self._volumes.block_of(sample_id)
        self._flags(block)[place] = True

    @property
    def whence(self) -> str:
        """Return what they are chosen from, in words."""
        return "the data set" if self._selection is None else "reader.subset"

    def are_all_in(self, block: int) -> bool:
        """Tell whether no other block has a sample that is read."""
        chosen = self._volumes if self._selection is None else self._selection
        return np.count_nonzero(chosen.counts) == 1 and bool(chosen.counts[block])

    @cached_property
    def _singles(self) -> Singles:
        return singles_of(self._volumes)

    def _of_block(
        self, block: int, first: int, stop: Callable[[], bool], but: int = -1
    ) -> Iterator[Samples]:
        places = self._places(block)
        start = bisect_left(places, first)
        # One by one: a set without blocks may have millions, and the next is good.
        for turn in range(len(places)):
            place = int(places[(start + turn) % len(places)])
            if place == but or self._is_hopeless(block, place):
                continue
            if stop():
                raise ClosedError("The pass ended while a substitute was looked for.")
            try:
                sample = self._singles.read(block, place, stop=stop)
            except BlockError:
                self._give_up_block(block)
                return
            yield sample

    def _places(self, block: int) -> Ints | range:
        if self._selection is not None:
            return self._selection.places(block)
        return range(int(self._volumes.counts[block]))

    def _is_hopeless(self, block: int, place: int) -> bool:
        return block in self._hopeless and bool(self._hopeless[block][place])

    def _flags(self, block: int) -> npt.NDArray[np.bool_]:
        fresh = np.zeros(int(self._volumes.counts[block]), np.bool_)
        return self._hopeless.setdefault(block, fresh)

    def _give_up_block(self, block: int) -> None:
        self._flags(block)[:] = True


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
        """Return its place, its label if it has one, and its id, in words."""
        label = "" if self.label is None else f"label {self.label}, "
        return f"{self.where} ({label}sample_id {self.sample_id})"


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Rows to be written: where each sample comes from, its bytes, and its place."""

    rows: Rows
    samples: Samples
    zone: Zone
    places: Places


class RowWriter:
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
        """Return the bad samples of a filled batch, by row.

        Each is given once.
        """
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
    """Return the error that a bad sample ends the run with."""
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
