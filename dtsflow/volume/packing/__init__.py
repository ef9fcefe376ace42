"""From images to volumes: arranging, encoding, writing, resuming."""
