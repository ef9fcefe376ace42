"""Images listed in CSV or JSON Lines, with any further columns, as a data set."""

from dtsflow_image_manifest.manifest import ImageManifest

__all__ = ["ImageManifest"]
