"""How many samples an MNIST or CIFAR file really has."""

from pathlib import Path

from dtsflow.errors import HeaderError
from dtsflow.volume.checksum import crc32
from dtsflow.volume.exact_read import PIECE_BYTES, opened, read_bytes
from dtsflow.volume.format import SMALL_AREA_BYTES
from dtsflow.volume.header import Header
from dtsflow.volume.small import SMALL_SETS


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
    """CRC-32 over everything after the header area, as the header stores it."""
    crc = 0
    with opened(path) as descriptor:
        for start in range(SMALL_AREA_BYTES, size, PIECE_BYTES):
            piece = read_bytes(descriptor, min(PIECE_BYTES, size - start), start, path)
            crc = crc32(piece.data, crc)
    return crc
