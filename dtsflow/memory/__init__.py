"""Regions, slots and the memory plan: every byte of a run, planned before it exists."""

from dtsflow.memory.budget import Budget

__all__ = ["Budget"]
