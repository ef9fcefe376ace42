"""Batches that adapters can hand over: those of images."""

from dtsflow.arena.batch import Batch
from dtsflow.errors import ConfigError


def expect_images(batch: Batch) -> None:
    """Refuse a batch of records.

    Raises:
        ConfigError: It has no images; says what to use instead.
    """
    if batch.images is None:
        raise ConfigError(
            f"this adapter hands over images, and the batches of {batch.phase} are records with "
            f"the fields {', '.join(batch.fields)}. Loop over run.epoch(…) and take the arrays "
            "from there: batch.NAME speaks DLPack."
        )
