"""The DTS format: headers, blocks, index, manifest, and safe reading and writing."""
