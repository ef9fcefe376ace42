"""Where batches live: the memory that the plan describes."""
