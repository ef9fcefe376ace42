"""What each rank of the tests of packing does: `python packer.py DEED RANK ODD WORD…`.

DEED happens on RANK when it writes its second block; ODD are more words on rank 1.
"""

import os
import shlex
import signal
import sys
from collections.abc import Sequence

from dtsflow.cli.main import main
from dtsflow.volume.packing.prepare import Prepared
from dtsflow.volume.packing.volume_part import VolumePart

BLOCK = 2


def program(deed: str, where: str, odd: str, *words: str) -> int:
    rank = os.environ.get("PMI_RANK", os.environ.get("RANK", "0"))
    if rank == where:
        _plan(deed)
    return main(["pack", *words, *(shlex.split(odd) if rank == "1" else [])])


def _plan(deed: str) -> None:
    write, written = VolumePart._write_block, 0

    def doing(part: VolumePart, images: Sequence[Prepared]) -> int:
        nonlocal written
        written += 1
        if written == BLOCK:
            if deed == "raise":
                raise OSError(28, "No space left on device")
            os.kill(os.getpid(), getattr(signal, deed))
        return write(part, images)

    setattr(VolumePart, "_write_block", doing)  # noqa: B010  # mypy lets no method be assigned


if __name__ == "__main__":
    sys.exit(program(*sys.argv[1:]))
