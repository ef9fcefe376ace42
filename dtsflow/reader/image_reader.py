"""Reading the images of a raw set one by one; one reader a thread."""

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dtsflow.errors import ClosedError, VolumeError
from dtsflow.reader.block_reader import Verify
from dtsflow.reader.patient_file import PatientFile
from dtsflow.reader.samples import Samples
from dtsflow.volume.checksum import crc32
from dtsflow.volume.exact_read import read_into
from dtsflow.volume.raw_set import RawSet


class ImageReader:
    """Reads images into memory of the caller; one descriptor at a time.

    Args:
        images: The data set.
        verify: Whether bytes are compared with their checksum, where the set has one.
        retries: How often a read is tried again that failed as a share may for a while.
        pause: Waits so many seconds, or until the reading is to end; says which.
        first_id: The sample_id of the set's first image, in a mix of several.
    """

    def __init__(
        self,
        images: RawSet,
        verify: Verify,
        retries: int,
        pause: Callable[[float], bool],
        first_id: int = 0,
    ) -> None:
        self._images = images
        self._first_id = first_id
        arrangement = images.arrangement
        checks = verify is not Verify.NONE and arrangement is not None
        self._crcs = arrangement.crcs if checks and arrangement is not None else None
        self._file = PatientFile(retries, pause)

    @property
    def retried(self) -> int:
        """How often a read was tried again so far."""
        return self._file.retried

    def read(self, sample_id: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]) -> bool:
        """Fill `memory` with the bytes of an image; False if `stop` said to leave it.

        `sample_id` is its number in this set.

        Raises:
            VolumeError: The file is gone, is not the one that was listed, or cannot be
                read; names the sample and the file.
        """
        try:
            if not self._file.attempt(lambda: self._fill(sample_id, memory, stop)):
                return False
            self._check(sample_id, memory)
        except VolumeError as error:
            raise VolumeError(f"sample_id {self._first_id + sample_id}: {error}") from error
        return True

    def close(self) -> None:
        """Close the file that was read last."""
        self._file.close()

    def _fill(
        self, sample_id: int, memory: npt.NDArray[np.uint8], stop: Callable[[], bool]
    ) -> bool:
        runs = self._images.runs
        path, wanted = runs.path(sample_id), runs.file_bytes(sample_id)
        descriptor = self._file.descriptor(path)
        found = os.fstat(descriptor).st_size
        if found != wanted:
            raise VolumeError(
                f"{path} has {found} bytes, it had {wanted} when it was listed. Something writes "
                "to the source: let it end, then start again."
            )
        return read_into(descriptor, memory, int(runs.offsets[sample_id]), path, stop=stop)

    def _check(self, sample_id: int, memory: npt.NDArray[np.uint8]) -> None:
        if self._crcs is None:
            return
        found, wanted = crc32(memory.data), int(self._crcs[sample_id])
        if found != wanted:
            raise VolumeError(
                f"{self._images.where(sample_id)} has the CRC-32 {found:#010x}, it had "
                f"{wanted:#010x} when it was packed. Put the file back, or pack the folder as it "
                "is now."
            )


class SingleImages:
    """Reads images as substitutes, one at a time; the threads of a run share it."""

    def __init__(self, images: RawSet, first_id: int = 0) -> None:
        self._images = images
        self._first_id = first_id  # as of ImageReader

    def trust(self, block: int) -> None:
        """Nothing: each image is read for itself."""

    def read(self, block: int, place: int, *, stop: Callable[[], bool]) -> Samples:
        """The sample `place` of `block`, in memory of its own.

        Raises:
            VolumeError: It cannot be read.
            ClosedError: `stop` said so.
        """
        sample_id = int(self._images.first_ids[block]) + place
        size = int(self._images.runs.sizes[sample_id])
        memory = np.empty(size, np.uint8)
        first_id = self._first_id
        reader = ImageReader(self._images, Verify.BLOCK, 0, lambda _seconds: stop(), first_id)
        try:
            if not reader.read(sample_id, memory, stop):
                raise ClosedError("The pass ended while a substitute was read.")
        finally:
            reader.close()
        return Samples(
            memory,
            offsets=np.zeros(1, np.int64),
            sizes=np.array([size], np.int64),
            labels=self._images.labels[sample_id : sample_id + 1],
            ids=np.array([sample_id], np.int64),
        )
