"""Compressed bytes to uint8 images, height x width x channels."""
