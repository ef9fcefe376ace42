"""Which bytes, in which order, when."""
