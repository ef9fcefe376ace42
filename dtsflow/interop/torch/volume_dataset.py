"""The samples of a data set one by one, as a map-style Dataset of PyTorch's."""

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image as PillowImage
from torch.utils.data import Dataset

from dtsflow.decode.auto import Auto
from dtsflow.decode.decoder import Decoder, Image
from dtsflow.decode.pillow import Pillow, PixelDecoder
from dtsflow.errors import ConfigError, DecodeError
from dtsflow.volume.datasets.access import OpenVolumes, Sample
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet

Form = Literal["pil", "tensor"]
FORMS = ("pil", "tensor")


class VolumeDataset(Dataset[tuple[Any, int]]):
    """Image and label of each sample, by sample_id: `image, label = dataset[7]`.

    For samplers and transforms of one's own; a run is several times faster. It goes to
    the workers of a DataLoader however they are started: each process opens the files
    for itself when it first reads. No checksum is checked.

    Args:
        path: A file, a folder of the volumes of one data set, or a glob.
        transform: Called with each image; spawned workers need one that pickles.
        image: What an image is. `pil`: a PIL image, RGB, or gray where the set has one
            channel. `tensor`: uint8 (H, W, C), in memory of its own.
        decode: How images are decoded, `Auto()` by default.

    Attributes:
        classes: A name per label.

    Raises:
        ConfigError: `image` is none of these.
        SetError: Nothing is there, several data sets are, or one is not whole.
        HeaderError, BlockError: A file is damaged.
    """

    def __init__(
        self,
        path: str | Path,
        transform: Callable[[Any], Any] | None = None,
        *,
        image: Form = "pil",
        decode: Auto | Pillow | None = None,
    ) -> None:
        if image not in FORMS:
            raise ConfigError(f"image is {image!r}. Choose one of {', '.join(FORMS)}.")
        self.transform = transform
        self._form = image
        self._decode = decode or Auto()
        self._volumes = scan(path)
        self.classes = list(self._volumes.class_names)
        self._opened: _Opened | None = None

    def __len__(self) -> int:
        return self._volumes.num_samples

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """Read and decode one sample; a negative index counts from the end.

        Raises:
            IndexError: There is no such sample.
            DecodeError: The sample is damaged; names its file, block and index.
            BlockError: The index of its block is damaged.
        """
        opened = self._in_this_process()
        sample = opened.volumes[index]
        image = self._formed(self._decoded(opened.decoder, sample))
        return (image if self.transform is None else self.transform(image)), sample.label

    def _decoded(self, decoder: Decoder, sample: Sample) -> Image:
        try:
            return decoder.decode(sample.data)
        except DecodeError as error:
            where = self._volumes.where(sample.sample_id)
            raise DecodeError(
                f"{where} (label {sample.label}, sample_id {sample.sample_id}) cannot be decoded: "
                f"{error}. Replace or remove the image at its source, and pack again."
            ) from error

    def _formed(self, pixels: Image) -> Any:
        if self._form == "tensor":
            return torch.from_numpy(np.require(pixels, requirements=["C", "W"]))
        return PillowImage.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)

    def _in_this_process(self) -> "_Opened":
        opened = self._opened
        if opened is None or opened.process != os.getpid():
            # What a fork brought along is left alone: its lock may be held for good.
            opened = self._opened = _Opened.of(self._volumes, self._decode)
            weakref.finalize(self, opened.close)
        return opened

    def __getstate__(self) -> dict[str, Any]:
        """All but the open files, which are each process's own."""
        return {**self.__dict__, "_opened": None}


@dataclass(frozen=True, slots=True)
class _Opened:
    """What one process reads with."""

    process: int
    volumes: OpenVolumes
    decoder: Decoder

    @classmethod
    def of(cls, volumes: VolumeSet, decode: Auto | Pillow) -> "_Opened":
        pixels = volumes.layout == "pixels"
        decoder = PixelDecoder(volumes.image) if pixels else decode.start()
        return cls(os.getpid(), OpenVolumes(volumes), decoder)

    def close(self) -> None:
        if os.getpid() == self.process:
            self.volumes.close()
