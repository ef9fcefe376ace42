"""MNIST and CIFAR files: all labels, then all pixels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError
from dtsflow.volume.block import BlockIndex
from dtsflow.volume.format import Kind


@dataclass(frozen=True, slots=True)
class SmallSet:
    """The image and the classes of a set whose samples are raw pixels."""

    height: int
    width: int
    channels: int
    class_names: tuple[str, ...]

    @property
    def sample_bytes(self) -> int:
        """Bytes of one image."""
        return self.height * self.width * self.channels

    @property
    def record_bytes(self) -> int:
        """Bytes of one image and its label."""
        return self.sample_bytes + 1

    def index(self, memory: npt.NDArray[np.uint8], samples: int, path: Path) -> BlockIndex:
        """Where the samples lie in a payload that starts with `memory`.

        `memory` needs to reach over the labels only, `samples` bytes.

        Raises:
            BlockError: A label is no class of this set.
        """
        labels = memory[:samples].astype(np.int32)
        classes = len(self.class_names)
        if samples and labels.max() >= classes:
            sample = int(np.argmax(labels >= classes))
            raise BlockError(
                f"{path}: sample {sample} has label {labels[sample]}, the set has {classes} "
                "classes. The file is damaged: copy or export it again."
            )
        offsets = samples + np.arange(samples, dtype=np.int64) * self.sample_bytes
        return BlockIndex(offsets, np.full(samples, self.sample_bytes, np.int64), labels)


_DIGITS = tuple("0123456789")

_CIFAR10 = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

_CIFAR100 = tuple(
    """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse
mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper
snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television
tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
""".split()  # noqa: SIM905  # a list literal takes a hundred lines
)
assert len(_CIFAR100) == 100  # noqa: PLR2004

SMALL_SETS = {
    Kind.MNIST: SmallSet(28, 28, 1, _DIGITS),
    Kind.CIFAR10: SmallSet(32, 32, 3, _CIFAR10),
    Kind.CIFAR100: SmallSet(32, 32, 3, _CIFAR100),
}
