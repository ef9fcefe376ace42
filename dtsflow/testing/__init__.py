"""Helpers for tests of dtsflow's users and plugins.

Tiny real volumes in one call, and checks that a plugin's classes keep the contracts
that the engine relies on: each ends with an `AssertionError` that says what was broken.
"""

from dtsflow.testing.consumers import check_consumer, record_batch
from dtsflow.testing.image_lists import check_image_loader
from dtsflow.testing.images import check_decoder, check_operation
from dtsflow.testing.records import check_loader, check_parser, check_record_operation
from dtsflow.testing.volumes import (
    BlockSamples,
    damage,
    jpeg,
    write_block_set,
    write_block_volume,
    write_small_set,
)

__all__ = [
    "BlockSamples",
    "check_consumer",
    "check_decoder",
    "check_image_loader",
    "check_loader",
    "check_operation",
    "check_parser",
    "check_record_operation",
    "damage",
    "jpeg",
    "record_batch",
    "write_block_set",
    "write_block_volume",
    "write_small_set",
]
