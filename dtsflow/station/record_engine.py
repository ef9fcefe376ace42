"""The engine of records: a parser and operations of plugins fill a batch's fields."""

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dtsflow.decode.parser import Arrays, Parsing
from dtsflow.errors import DecodeError
from dtsflow.po.records import RecordProgram
from dtsflow.reader.store import Samples
from dtsflow.spec import Field
from dtsflow.station.engine import Address, Bad, Places, StageTimes, fill_others
from dtsflow.station.zone import Zone

_BAD = (DecodeError, ValueError)  # what a parser may say of a record


class RecordEngine:
    """Fills the fields of a zone from records; satisfies Engine.

    Args:
        parsing: The parser, for this worker alone.
        program: The operations behind it, for this worker alone.
        fields: Those of the batch; the first lies where images do in other batches.
    """

    def __init__(self, parsing: Parsing, program: RecordProgram, fields: Sequence[Field]) -> None:
        self._parsing = parsing
        self._program = program
        self._fields = tuple(fields)
        self.times = StageTimes()

    def fill(self, samples: Samples, address: Address, zone: Zone, places: Places) -> Bad:
        """Write the rows of all samples but the bad ones, which it gives."""
        began = time.perf_counter()
        out = self._rows(zone, places)
        entry = self._program.entry(len(samples), out)
        bad = self._parse(samples, entry)
        parsed = time.perf_counter()
        self.times.decode += parsed - began
        if bad:
            return fill_others(self, samples, address, zone, places, bad)
        self._program.run(
            entry,
            out,
            seed=address.seed,
            ids=samples.draw_ids,
            epoch=address.epoch,
            phase=address.phase,
        )
        self._scatter(out, zone, places)
        self.times.po += time.perf_counter() - parsed
        return bad

    def probe(self, samples: Samples) -> Bad:
        """Return the samples that the parser says are bad."""
        rows = {field.name: field.empty(len(samples)) for field in self._fields}
        return self._parse(samples, self._program.entry(len(samples), rows))

    def _parse(self, samples: Samples, out: Arrays) -> Bad:
        records = [samples.data(number) for number in range(len(samples))]
        try:
            self._parsing.parse(records, out)
        except _BAD as error:
            return self._bad_ones(records, out, error)
        return {}

    def _bad_ones(self, records: list[memoryview], out: Arrays, first: Exception) -> Bad:
        """Return which records are bad.

        Each is parsed alone, since the parser does not say which.
        """
        bad: Bad = {}
        for number, record in enumerate(records):
            try:
                self._parsing.parse([record], {name: rows[:1] for name, rows in out.items()})
            except _BAD as error:
                bad[number] = _as_decode_error(error)
        if not bad:
            raise DecodeError(
                f"a parser refused {len(records)} records together ({first}), and none of them "
                "alone. What it makes of a record must not depend on the others."
            ) from first
        return bad

    def _rows(self, zone: Zone, places: Places) -> dict[str, npt.NDArray[np.generic]]:
        """Return where to write.

        The zone itself, or memory of our own if rows are apart.
        """
        first, count = int(places[0]), len(places)
        if int(places[-1]) - first + 1 == count:
            return {
                name: array[first : first + count] for name, array in self._arrays(zone).items()
            }
        return {field.name: field.empty(count) for field in self._fields}

    def _scatter(self, out: Arrays, zone: Zone, places: Places) -> None:
        for name, array in self._arrays(zone).items():
            if out[name].base is None:  # rows that lie apart
                array[places] = out[name]

    def _arrays(self, zone: Zone) -> dict[str, npt.NDArray[np.generic]]:
        first, *others = self._fields
        return {first.name: zone.images} | {
            field.name: zone.fields[field.name].array for field in others
        }


def _as_decode_error(error: Exception) -> DecodeError:
    if isinstance(error, DecodeError):
        return error
    found = DecodeError(f"{error}")
    found.__cause__ = error
    return found
