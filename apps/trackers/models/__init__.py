"""Models of trackers: received data and its parsed form."""

from apps.trackers.models.codecarbon import (
    CodeCarbonInterval,
    CodeCarbonPost,
    CodeCarbonRun,
    CodeCarbonSource,
    SharedMachine,
)
from apps.trackers.models.mlflow import MlflowExperiments, MlflowFile, MlflowRun, MlflowSeries, MlflowSource

__all__ = (
    "CodeCarbonInterval", "CodeCarbonPost", "CodeCarbonRun", "CodeCarbonSource", "MlflowExperiments", "MlflowFile",
    "MlflowRun", "MlflowSeries", "MlflowSource", "SharedMachine",
)  # fmt: skip
