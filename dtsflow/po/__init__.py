"""Preprocess operations on uint8 images, and the chain that runs them."""
