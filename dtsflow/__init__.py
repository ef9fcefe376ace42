"""dtsflow feeds training: DTS image volumes to planned NHWC batches, exactly and fast."""

__version__ = "0.1.0"
