"""Addressed randomness: Philox draws and keyed permutations, the same for any worker or rank."""
