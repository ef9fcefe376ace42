"""Batches for other frameworks: `interop.torch`, `interop.jax`, `interop.dlpack`.

Each is imported by who wants it, and the framework with it; nothing else needs one.
"""
