"""Reading from a stream as many bytes as its start declares, and no more."""

from typing import IO

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PackError
from dtsflow.volume.exact_read import PIECE_BYTES

Bytes = npt.NDArray[np.uint8]


def take(stream: IO[bytes], size: int, where: str) -> Bytes:
    """The next `size` bytes of a stream; `where` names it in messages.

    Raises:
        PackError: It ends first.
    """
    memory = np.empty(size, np.uint8)
    done = 0
    while done < size:
        piece = stream.read(min(PIECE_BYTES, size - done))
        if not piece:
            raise PackError(
                f"{where} is cut short: it declares {size} more bytes and has {done}. Get the "
                "file again."
            )
        memory[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    return memory


def finish(stream: IO[bytes], declared: int, where: str) -> None:
    """Check that a stream ends here, after the `declared` bytes.

    Also what lets a gzip check itself: its checksum lies at its end.

    Raises:
        PackError: More bytes come; they are not all read.
    """
    rest = len(stream.read(PIECE_BYTES))
    if rest:
        raise PackError(
            f"{where} declares {declared} bytes and has at least {declared + rest}. It is "
            "damaged, or another kind of file: get it again."
        )


def check_labels(labels: Bytes, classes: int, where: str) -> None:
    """Refuse no label at all, and one that is no class.

    Raises:
        PackError: Names the first wrong sample, its label and the classes.
    """
    if len(labels) == 0:
        raise PackError(f"{where} holds no sample (0, it takes 1 or more). Get the file again.")
    if labels.max() >= classes:
        sample = int(np.argmax(labels >= classes))
        raise PackError(
            f"{where}: sample {sample} has label {labels[sample]}, the set has {classes} "
            "classes. The file is damaged, or of another set: get it again."
        )


def check_count(samples: int, most: int, where: str) -> None:
    """Refuse more samples than a volume can hold, before memory is taken for them.

    Raises:
        PackError: Names both numbers.
    """
    if samples > most:
        raise PackError(
            f"{where} declares {samples} samples, a volume of its kind holds {most}. The file "
            "is damaged, or of another set."
        )
