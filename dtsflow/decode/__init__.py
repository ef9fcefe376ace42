"""Compressed bytes to uint8 images, height x width x channels; records to fields."""

from dtsflow.decode.auto import Auto
from dtsflow.decode.parser import Parse
from dtsflow.decode.pillow import Pillow

__all__ = ["Auto", "Parse", "Pillow"]
