"""A run in the way of PyTorch's DataLoader.

A batch as PyTorch's tensors.

Where a loader is: the batches it has handed out, and the pass that comes next.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy.typing as npt
import torch

from dtsflow.api import open as open_run
from dtsflow.arena.batch import Batch
from dtsflow.errors import ConfigError
from dtsflow.interop.copies import BufferPool, expect_images
from dtsflow.pipeline.checkpoint import State
from dtsflow.pipeline.run import Pass, Run
from dtsflow.tensor.dtype import DType

IGNORED: Final = -100
"""The label of a missing row, which PyTorch's losses ignore unless told otherwise."""


class TorchBatch(NamedTuple):
    """One batch of one rank: `images, labels, *_ = batch`.

    Attributes:
        images: Pixels (B, C, H, W); unless configured otherwise in channels-last
            memory, which is how they are made.
        labels: int64 (B,); -100 in a missing row.
        valid: bool (B,); False in a missing row.
        sample_ids: int64 (B,); -1 in a missing row.
    """

    images: torch.Tensor
    labels: torch.Tensor
    valid: torch.Tensor
    sample_ids: torch.Tensor


@dataclass(frozen=True, slots=True)
class Handing:
    """How batches become tensors.

    Attributes:
        copy: Whether the tensors have memory of their own.
        channels_last: Whether the pixels stay in channels-last memory.
        device: Where the tensors go; None leaves them on the CPU.
        non_blocking: Whether the transfer there may end later than its call.

    Raises:
        ConfigError: The choices exclude each other, or CUDA is not there.
    """

    copy: bool
    channels_last: bool
    device: torch.device | None
    non_blocking: bool

    def __post_init__(self) -> None:
        if not (self.copy or self.channels_last):
            raise ConfigError(
                "copy=False hands out the memory that the pixels were written to, which is "
                "channels-last, and channels_last is False. Give copy=True."
            )
        if self.non_blocking and not self.copy:
            raise ConfigError(
                "non_blocking=True may read a batch after the next one was asked for, when "
                "copy=False lets it be overwritten. Give copy=True, or non_blocking=False."
            )
        if self._is_cuda and not torch.cuda.is_available():
            raise ConfigError(
                f"device is {self.device}, and this PyTorch ({torch.__version__}) finds no CUDA "
                "device. Install one that is built for CUDA, or leave device out."
            )

    def tensors(self, batch: Batch, lender: BufferPool) -> TorchBatch:
        """Make the tensors of a readable batch; `lender` has memory for the pixels.

        Raises:
            ConfigError: It is one of records.
        """
        expect_images(batch)
        labels = torch.from_numpy(batch.labels).long()
        labels.masked_fill_(labels == -1, IGNORED)
        valid, sample_ids = viewed(batch.valid), viewed(batch.sample_ids)
        if not self.copy:
            images = viewed(batch.images).permute(0, 3, 1, 2)
        else:
            images = self._pinned(batch) if self._is_cuda else self._copied(batch, lender)
            valid, sample_ids = valid.clone(), sample_ids.clone()
        return TorchBatch(*map(self._sent, (images, labels, valid, sample_ids)))

    def _copied(self, batch: Batch, lender: BufferPool) -> torch.Tensor:
        if self.channels_last:
            return viewed(lender.copy(batch.images)).permute(0, 3, 1, 2)
        return viewed(lender.copy(batch.images.transpose(0, 3, 1, 2)))

    def _pinned(self, batch: Batch) -> torch.Tensor:
        # PyTorch lends pinned memory itself, for it knows when a transfer has ended.
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        images = viewed(batch.images).permute(0, 3, 1, 2)
        return torch.empty_like(images, memory_format=layout, pin_memory=True).copy_(images)

    def _sent(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, non_blocking=self.non_blocking)

    @property
    def _is_cuda(self) -> bool:
        return self.device is not None and self.device.type == "cuda"


def viewed(array: npt.NDArray[Any]) -> torch.Tensor:
    """Return a tensor on the memory of a writable array; uint16 means bfloat16."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if array.dtype == DType.BF16.numpy else tensor


class Position:
    """Counts passes as epochs, and the batches of the one at work.

    Attributes:
        next: Epoch and step that the next pass begins at.
        reached: Epoch and step of the first batch that was not handed out.
    """

    __slots__ = ("next", "reached")

    def __init__(self, epoch: int, step: int) -> None:
        self.next = self.reached = (epoch, step)

    def begin(self) -> None:
        """Say that a pass begins; the one after it is the next epoch's."""
        self.reached = self.next
        self.next = (self.next[0] + 1, 0)

    def hand_out(self, epoch: int, step: int, *, steps: int) -> None:
        """Say that batch `step` of an epoch of `steps` was handed out."""
        self.reached = (epoch, step + 1) if step + 1 < steps else (epoch + 1, 0)


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
        self._lender = BufferPool()
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
        self._run.plan.check_state(state, where)
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
