"""Regions, slots and the memory plan: every byte of a run, planned before it exists."""

from dtsflow.memory.budget import Budget
from dtsflow.memory.declared import Declared, Form
from dtsflow.memory.plan_config import PlanConfig

__all__ = ["Budget", "Declared", "Form", "PlanConfig"]
