"""Regions, slots and the memory plan: every byte of a run, planned before it exists."""

from dtsflow.memory.device_plan import Budget, Declared, Form
from dtsflow.memory.region import PlanConfig

__all__ = ["Budget", "Declared", "Form", "PlanConfig"]
