"""Damaged volumes made right in place, with bytes that are proven to be right."""
