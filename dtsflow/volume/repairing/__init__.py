"""Repair of damaged volumes in place, with bytes that are proven to be right."""
