"""What trackers told, as it came and as it was read."""

from apps.trackers.models.codecarbon import (
    CodeCarbonInterval,
    CodeCarbonPost,
    CodeCarbonRun,
    CodeCarbonSource,
    SameMachine,
)
from apps.trackers.models.mlflow import MlflowExperiments, MlflowFile, MlflowRun, MlflowSeries, MlflowSource

__all__ = (
    "CodeCarbonInterval", "CodeCarbonPost", "CodeCarbonRun", "CodeCarbonSource", "MlflowExperiments", "MlflowFile",
    "MlflowRun", "MlflowSeries", "MlflowSource", "SameMachine",
)  # fmt: skip
