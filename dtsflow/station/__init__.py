"""Many workers fill one batch: zones and turns."""

from dtsflow.station.double_buffer import Station

__all__ = ["Station"]
