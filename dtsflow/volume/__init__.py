"""Bytes at rest: reading, checking and writing DTS volumes."""
