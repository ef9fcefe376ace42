"""A batch as PyTorch's tensors."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy.typing as npt
import torch

from dtsflow.arena.batch import Batch
from dtsflow.errors import ConfigError
from dtsflow.interop.images import expect_images
from dtsflow.interop.lending import Lender
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

    def tensors(self, batch: Batch, lender: Lender) -> TorchBatch:
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

    def _copied(self, batch: Batch, lender: Lender) -> torch.Tensor:
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
    """The tensor that shares the memory of a writable array; uint16 means bfloat16."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if array.dtype == DType.BF16.numpy else tensor
