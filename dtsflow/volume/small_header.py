"""The header of an MNIST or CIFAR file, as upstream writes it."""

from dtsflow.volume.format import SMALL_AREA_BYTES, Kind
from dtsflow.volume.header import Header
from dtsflow.volume.small import SMALL_SETS

_LARGEST_WORD = (1 << 32) - 1
_CLAIMED_CHANNELS = 3  # in MNIST's sizes too, whose images have one


def small_header(kind: Kind, samples: int, *, is_training: bool, level: int, crc: int) -> Header:
    """The header that upstream writes for a set of `samples`, quirks included.

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
    """How many samples one file can hold: its block_size is a 32-bit word."""
    return _LARGEST_WORD // _claimed_bytes(kind)


def _claimed_bytes(kind: Kind) -> int:
    layout = SMALL_SETS[kind]
    return layout.height * layout.width * _CLAIMED_CHANNELS + 1
