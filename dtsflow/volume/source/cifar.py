"""The binary versions of CIFAR-10 and CIFAR-100."""

import os
from typing import IO

import numpy as np

from dtsflow.errors import PackError
from dtsflow.volume.format import Kind
from dtsflow.volume.small import SMALL_SETS
from dtsflow.volume.small_header import most_samples
from dtsflow.volume.source.declared import Bytes, check_count, check_labels, take

# Classes of each label byte of a record: of CIFAR-100 the coarse one comes first.
_LABELS = {Kind.CIFAR10: (10,), Kind.CIFAR100: (20, 100)}


def read_cifar(stream: IO[bytes], kind: Kind, where: str) -> tuple[Bytes, Bytes]:
    """The labels and images of one file of records, images one a row and interleaved.

    Of CIFAR-100's two labels the fine one is kept.

    Raises:
        PackError: Not a whole number of records, none, or a label that is no class.
    """
    layout = SMALL_SETS[kind]
    classes = _LABELS[kind]
    record_bytes = len(classes) + layout.sample_bytes
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    samples, rest = divmod(size, record_bytes)
    if rest:
        raise PackError(
            f"{where} has {size} bytes, which are {samples} records of {record_bytes} and {rest} "
            "more. It is cut short, or another file under this name: get it again."
        )
    check_count(samples, most_samples(kind), where)
    records = take(stream, size, where).reshape(samples, record_bytes)
    for column, count in enumerate(classes):
        check_labels(records[:, column], count, where)
    planes = records[:, len(classes) :].reshape(samples, layout.channels, -1)
    pixels = planes.transpose(0, 2, 1).reshape(samples, layout.sample_bytes)
    return records[:, len(classes) - 1].copy(), np.ascontiguousarray(pixels)
