"""Many workers fill one batch: zones, the double buffer, engines."""

from dtsflow.station.double_buffer import Station

__all__ = ["Station"]
