"""Counters of a run and the report made of them."""
