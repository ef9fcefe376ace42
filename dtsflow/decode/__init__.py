"""Compressed bytes to uint8 images, height x width x channels."""

from dtsflow.decode.auto import Auto
from dtsflow.decode.pillow import Pillow

__all__ = ["Auto", "Pillow"]
