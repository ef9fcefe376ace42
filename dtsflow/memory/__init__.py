"""Regions, slots and the memory plan: every byte of a run, planned before it is allocated."""
