"""Addressed randomness: Philox draws and permutations, the same for every worker."""
