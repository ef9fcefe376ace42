"""Memory that the ranks of a node share.

It never has a name in /dev/shm: the first rank of a node makes it and hands it to the
others through a socket. So nothing is left of it however they end, the size that a
container gives /dev/shm does not limit it, and it is free when the last rank lets go.
"""

import mmap
import os
import secrets
import socket
import struct
from contextlib import closing

import numpy as np
import numpy.typing as npt

from dtsflow.errors import RanksError
from dtsflow.memory.align import aligned_bytes
from dtsflow.ranks.group import Group

HAND_OVER_S = 60.0  # all have sent that they are here, so this does not take long

_CREDENTIALS = struct.Struct("3i")  # process, user and group of a socket's other end


def node_memory(group: Group, nbytes: int) -> npt.NDArray[np.uint8]:
    """Return `nbytes` zeros from a page's start, the same for all ranks of a node.

    All ranks of all nodes call it, with the number of their node. A rank that is alone
    on its node gets memory of its own.

    Raises:
        RanksError: Memory cannot be shared here, or a rank did not come to get it.
    """
    rank = group.rank
    if len(group.peers) == 1:
        group.gather_texts("")
        return aligned_bytes(nbytes)
    if not (hasattr(os, "memfd_create") and hasattr(socket, "recv_fds")):
        raise RanksError(
            "Several ranks on a node share memory on Linux only. Use reader.mode=streaming, or "
            "one rank a node."
        )
    try:
        return _shared(group, max(1, nbytes))[:nbytes]
    except OSError as error:
        raise RanksError(
            f"Rank {rank.index} could not share {nbytes:,} bytes with the {rank.local_size} ranks "
            f"of its node: {error}. With reader.mode=streaming nothing is shared."
        ) from error


def _shared(group: Group, nbytes: int) -> npt.NDArray[np.uint8]:
    first = group.peers[0]
    if group.rank.index == first:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            name = f"dtsflow-{secrets.token_hex(8)}"
            # A leading zero: a name of the kernel's that goes with its socket, no file.
            listening.bind(f"\0{name}")
            listening.listen(group.rank.local_size)
            listening.settimeout(HAND_OVER_S)
            descriptor = os.memfd_create("dtsflow")
            try:
                os.ftruncate(descriptor, nbytes)
                group.gather_texts(name)
                _hand_over(listening, descriptor, group.rank.local_size - 1)
                return _mapped(descriptor, nbytes)
            finally:
                os.close(descriptor)
    descriptor = _receive(group.gather_texts("")[first])
    try:
        return _mapped(descriptor, nbytes)
    finally:
        os.close(descriptor)


def _hand_over(listening: socket.socket, descriptor: int, receivers: int) -> None:
    """Give the memory to so many processes of this user."""
    while receivers:
        other, _ = listening.accept()
        with closing(other):
            # Anyone on the machine can read the name.
            credentials = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(credentials)[1] == os.geteuid():
                socket.send_fds(other, [b"\0"], [descriptor])
                receivers -= 1


def _receive(name: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.settimeout(HAND_OVER_S)
        other.connect(f"\0{name}")
        _, descriptors, _, _ = socket.recv_fds(other, 1, 1)
    if not descriptors:
        raise OSError("the first rank of the node went away")
    return descriptors[0]


def _mapped(descriptor: int, nbytes: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8)
