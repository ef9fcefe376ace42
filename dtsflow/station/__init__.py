"""Many workers fill one batch: zones and turns."""
