"""A run in the way of PyTorch's DataLoader."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

import torch

from dtsflow.api import open as open_run
from dtsflow.errors import ConfigError
from dtsflow.interop.lending import Lender
from dtsflow.interop.torch.batch import Handing, TorchBatch
from dtsflow.interop.torch.position import Position
from dtsflow.run import Pass, Run
from dtsflow.state import State

Config = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]


class Loader:
    """The batches of one phase of a run as tensors; each pass over it is one epoch.

    Passes count the epochs on from where the run begins, also after one that was left
    early; `set_epoch` chooses another. By default the tensors have memory of their own,
    so that a batch may be kept, or transferred later, as long as one likes.

    A run has one pass at a time: to begin one over another phase of the same run ends
    this one. Validation in the middle of an epoch needs a run of its own.

    Args:
        run: The run; or what `dtsflow.open` takes, several of it in a list: then the
            loader opens the run, and closes it.
        phase: Name of the phase.
        copy: False shares the memory of the run, for loops that use a batch before they
            ask for the next one: no look-ahead, no list of batches.
        channels_last: False arranges the pixels anew, channel by channel.
        device: Where the tensors go; to a CUDA device by way of pinned memory.
        non_blocking: Whether a transfer may end later than its call; needs `copy`.

    Raises:
        PlanError: The run has no such phase.
        ClosedError: The run is closed.
        ConfigError: The choices exclude each other, or CUDA is not there.
    """

    def __init__(
        self,
        run: Run | Config,
        phase: str = "train",
        *,
        copy: bool = True,
        channels_last: bool = True,
        device: torch.device | str | None = None,
        non_blocking: bool = False,
    ) -> None:
        where = None if device is None else torch.device(device)
        self._handing = Handing(copy, channels_last, where, non_blocking)
        self._lender = Lender()
        self.phase = phase
        self._owns = not isinstance(run, Run)
        self._run = run if isinstance(run, Run) else _opened(run)
        try:
            self._steps = len(self._run.epoch(0, phase=phase))
        except BaseException:
            self.close()
            raise
        start = self._run.start
        begun = (start.epoch, start.step) if start.phase == phase else (0, 0)
        self._position = Position(*begun)

    def __len__(self) -> int:
        """Batches of a whole epoch, also where the next pass begins within one."""
        return self._steps

    def __iter__(self) -> Iterator[TorchBatch]:
        """Begin the next pass: an epoch, or what a loaded state has left of one.

        Raises:
            ClosedError: The run is closed.
        """
        epoch, step = self._position.next
        batches = self._run.epoch(epoch, phase=self.phase, start_step=step)
        self._position.begin()
        return self._hand_out(batches, self._position)

    def _hand_out(self, batches: Pass, position: Position) -> Iterator[TorchBatch]:
        for batch in batches:
            tensors = self._handing.tensors(batch, self._lender)
            position.hand_out(batch.epoch, batch.step, steps=self._steps)
            yield tensors
            del tensors  # so that its memory comes back before the next one is copied

    @property
    def epoch(self) -> int:
        """The epoch that the next pass will be of."""
        return self._position.next[0]

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be of this epoch.

        Nothing changes where it would be anyway: behind `load_state_dict` that pass
        still begins at the step of the state.

        Raises:
            PlanError: There is no such epoch.
            ClosedError: The run is closed.
        """
        self._run.epoch(epoch, phase=self.phase)  # refuses what is none; starts nothing
        if epoch != self.epoch:
            self._position = Position(epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: at the first batch that was not handed out.

        A batch is handed out when the iterator returns it. Behind a wrapper that asks
        ahead of the use, the state to save is the one from before the batches that the
        wrapper still holds. The dict is plain JSON, below 1 kB and alike on every rank;
        of a run with one phase it is the run's state, which `resume` takes.
        """
        epoch, step = self._position.reached
        return asdict(State(self.phase, epoch, step, self._run.state().fingerprint))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next pass begin where `state_dict` says; it may be another process's.

        Raises:
            ConfigError: It is no state, one of another phase, or of a run whose batches
                are others; then it names what changed.
        """
        where = "the state_dict"
        try:
            state = State.from_json(json.dumps(state_dict), where)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{where} is none of a Loader's: {error}.") from error
        if state.phase != self.phase:
            raise ConfigError(
                f"{where} is of phase {state.phase!r}, and this loader gives {self.phase!r}. "
                "Load it into a loader of the phase it was saved from."
            )
        state.check(self._run.plan, where)
        self._position = Position(state.epoch, state.step)

    def close(self) -> None:
        """Close the run if it is the loader's own; closing again does nothing."""
        if self._owns:
            self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._owns:
            self._run.__exit__(kind, error, trace)


def _opened(config: Config) -> Run:
    parts = [config] if isinstance(config, str | Mapping) else config
    return open_run(*parts)
