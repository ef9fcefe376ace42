"""MNIST and CIFAR files: all labels, then all pixels.

`count_samples` finds how many samples a file really has. `small_header` makes the
header as upstream writes it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError, HeaderError
from dtsflow.volume.format.block import BlockIndex
from dtsflow.volume.format.header import SMALL_AREA_BYTES, Header, Kind
from dtsflow.volume.format.io import PIECE_BYTES, crc32, opened, read_bytes


@dataclass(frozen=True, slots=True)
class SmallSet:
    """The image and the classes of a set whose samples are raw pixels."""

    height: int
    width: int
    channels: int
    class_names: tuple[str, ...]

    @property
    def sample_bytes(self) -> int:
        """Return the bytes of one image."""
        return self.height * self.width * self.channels

    @property
    def record_bytes(self) -> int:
        """Return the bytes of one image and its label."""
        return self.sample_bytes + 1

    def index(self, memory: npt.NDArray[np.uint8], samples: int, path: Path) -> BlockIndex:
        """Index the samples of a payload that starts with `memory`.

        `memory` needs to reach over the labels only, `samples` bytes.

        Raises:
            BlockError: A label is not a class of this set.
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


def count_samples(path: Path, header: Header, size: int) -> int:
    """Decide between the header's number of samples and the file's `size`.

    The exporter writes the full set's number even into a subset, so a header may claim
    more than there is. Only a whole number of records with the right checksum is such a
    subset; anything else is a truncated file.

    Raises:
        HeaderError: The file is truncated, or has more than its header says.
    """
    record = SMALL_SETS[header.dataset_type].record_bytes
    payload = max(size - SMALL_AREA_BYTES, 0)
    fitting, rest = divmod(payload, record)
    claimed = header.num_samples
    if rest == 0 and fitting == claimed:
        return fitting
    if payload > claimed * record:
        raise HeaderError(
            f"{path} is damaged: after its header lie {payload} bytes, the {claimed} samples "
            f"it counts take {claimed * record}. Copy or export it again."
        )
    if rest == 0 and fitting and payload_crc(path, size) == header.crc_code:
        return fitting
    raise HeaderError(
        f"{path} is truncated: after its header lie {payload} bytes, the {claimed} samples it "
        f"counts take {claimed * record}. Copy or export it again."
    )


def payload_crc(path: Path, size: int) -> int:
    """Return the CRC-32 of everything after the header area, as the header has it."""
    crc = 0
    with opened(path) as descriptor:
        for start in range(SMALL_AREA_BYTES, size, PIECE_BYTES):
            piece = read_bytes(descriptor, min(PIECE_BYTES, size - start), start, path)
            crc = crc32(piece.data, crc)
    return crc


_LARGEST_WORD = (1 << 32) - 1
_CLAIMED_CHANNELS = 3  # in MNIST's sizes too, whose images have one


def small_header(kind: Kind, samples: int, *, is_training: bool, level: int, crc: int) -> Header:
    """Make the header that upstream writes for a set of `samples`, quirks included.

    `level` is only recorded; `crc` is that of all labels and pixels. `samples` is at
    most `most_samples(kind)`.
    """
    layout = SMALL_SETS[kind]
    said = samples * _claimed_bytes(kind)
    return Header(
        dataset_type=kind,
        is_training=is_training,
        compress_level=level,
        num_classes=len(layout.class_names),
        image_width=layout.width,
        image_height=layout.height,
        num_channels=layout.channels,
        color_type="GRAY" if layout.channels == 1 else " RGB",
        num_samples=samples,
        total_blocks=1,
        num_blocks=1,
        total_bytes=SMALL_AREA_BYTES + said,
        header_bytes=SMALL_AREA_BYTES,
        block_bytes=said,
        block_size=said,
        block_header_size=0,
        pic_alignment=0,
        max_pic_area=layout.height * layout.width,
        max_pic_per_block=samples,
        crc_code=crc,
    )


def most_samples(kind: Kind) -> int:
    """Return how many samples a file can hold: its block_size is a 32-bit word."""
    return _LARGEST_WORD // _claimed_bytes(kind)


def _claimed_bytes(kind: Kind) -> int:
    layout = SMALL_SETS[kind]
    return layout.height * layout.width * _CLAIMED_CHANNELS + 1
