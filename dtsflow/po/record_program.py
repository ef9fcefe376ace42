"""A chain of operations on records as one worker runs it, on scratch that it keeps."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dtsflow.decode.parser import Arrays
from dtsflow.po.record_operation import RecordOperation
from dtsflow.seed.draws import operation_draws
from dtsflow.spec import Field


class RecordProgram:
    """Runs a checked chain on chunks of records, on scratch that it keeps.

    It serves one worker. `fields` are those of `RecordChain.fields`.
    """

    def __init__(
        self, operations: Sequence[RecordOperation], fields: Sequence[tuple[Field, ...]]
    ) -> None:
        self._operations = tuple(operations)
        self._fields = tuple(fields)
        self._words = tuple(operation.words for operation in operations)
        self._scratch: list[dict[str, npt.NDArray[np.generic]]] = [{} for _ in fields]

    def entry(self, rows: int, out: Arrays) -> Arrays:
        """Where a parser is to write: `out` itself if no operation follows."""
        return self._memory(0, rows, out)

    def run(
        self,
        records: Arrays,
        out: Arrays,
        *,
        seed: int,
        ids: npt.NDArray[np.int64],
        epoch: int,
        phase: int,
    ) -> None:
        """Run the chain on `records`, which is what `entry` gave, and fill `out`.

        `ids` address the draws.

        Raises:
            PlanError: An id or the epoch has no room in a draw's address.
        """
        chunk = operation_draws(
            seed=seed, ids=ids, epoch=epoch, phase=phase, view=0, words=self._words
        )
        for place, (operation, draws) in enumerate(zip(self._operations, chunk, strict=True), 1):
            target = self._memory(place, len(ids), out)
            operation.apply(records, target, draws)
            records = target

    def _memory(self, place: int, rows: int, out: Arrays) -> Arrays:
        if place == len(self._operations):
            return out
        scratch = self._scratch[place]
        for field in self._fields[place]:
            if field.name not in scratch or len(scratch[field.name]) < rows:
                scratch[field.name] = field.empty(rows)
        return {name: array[:rows] for name, array in scratch.items()}
