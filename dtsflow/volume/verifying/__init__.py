"""Checking volumes: every part is checked, whatever the others are like."""
