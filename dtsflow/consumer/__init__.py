"""What batches are for."""
