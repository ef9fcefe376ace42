"""Packing images into volumes: arranging, encoding, writing, resuming."""
