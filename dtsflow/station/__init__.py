"""Many workers fill one batch: zones and turns."""

from dtsflow.station.station import Station

__all__ = ["Station"]
