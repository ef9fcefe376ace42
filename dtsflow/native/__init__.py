"""The compiled core: probe and run_chunk, which hold no GIL while they work."""
