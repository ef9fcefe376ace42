"""Write the images of volumes back, as class folders or shards."""
