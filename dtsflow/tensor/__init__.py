"""Shapes, element types and tensor descriptors: the vocabulary of memory."""
