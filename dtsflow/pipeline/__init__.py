"""The assembly: build a pipeline, plan it, run it, and go on with it later."""

from dtsflow.pipeline.phase import Phase
from dtsflow.pipeline.pipeline import Pipeline

__all__ = ["Phase", "Pipeline"]
