"""Artifacts, and the plans by which some of them are let go."""

from apps.artifacts.models.artifacts import Alias, Artifact, Copy, LineageEdge, Pin
from apps.artifacts.models.holds import Hold
from apps.artifacts.models.notices import Notice
from apps.artifacts.models.plans import Plan, PlanLine, RetentionDays
from apps.artifacts.models.reuse import ReuseTerm

__all__ = (
    "Alias", "Artifact", "Copy", "Hold", "LineageEdge", "Notice", "Pin", "Plan", "PlanLine", "RetentionDays", "ReuseTerm",
)  # fmt: skip
