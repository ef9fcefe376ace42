"""Text files of two numbers a line, as a data set for dtsflow."""

from dtsflow_mini_csv.mini import MiniDecoder, MiniReader

__all__ = ["MiniDecoder", "MiniReader"]
