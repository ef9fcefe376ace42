"""Configuration: words to plain values, and classes that a configuration may name."""
