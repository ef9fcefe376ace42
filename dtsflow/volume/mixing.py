"""An order of images without pattern, from their names alone."""

import hashlib


def mixing_number(name: str) -> int:
    """A number below 2^64 from a digest of the name.

    No library version can change it, and it has nothing to do with the class.
    """
    raw = name.encode("utf-8", "surrogatepass")  # a name on disk may be no text
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big")


def mixing_key(name: str) -> tuple[int, str]:
    """What to sort by for an order that mixes classes."""
    return mixing_number(name), name
