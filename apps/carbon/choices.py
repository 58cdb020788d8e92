"""Choices of carbon."""

from django.db import models


class Resolution(models.TextChoices):
    """Time and area for which a factor was made, the most precise first. ``declared``: stated with
    an activity, for it alone.
    """

    HOURLY_ACTUAL = "hourly_actual", "hourly, measured"
    HOURLY_ESTIMATED = "hourly_estimated", "hourly, estimated"
    MONTHLY = "monthly", "monthly"
    ANNUAL_SUBREGION = "annual_subregion", "annual, part of a country"
    ANNUAL_COUNTRY = "annual_country", "annual, country"
    DECLARED = "declared", "declared"


class RollupKind(models.TextChoices):
    """Kind of a daily rollup."""

    USE = "use", "Energy and device time"
    HARDWARE = "hardware", "Embodied carbon"


class UseKind(models.TextChoices):
    """Kind of use. ``idle_share`` is the part of idle energy that is charged to a project.
    ``system`` is use by the machine's own processes that no project is charged for.
    """

    USED = "used", "Used"
    IDLE = "idle", "Idle"
    IDLE_SHARE = "idle_share", "Idle, charged to projects"
    OVERHEAD = "overhead", "Node overhead"
    SYSTEM = "system", "System processes"


class ProviderAct(models.TextChoices):
    """Audit actions on providers of grid intensity."""

    ADDED = "grid_provider.added", "Grid provider added"
    CHANGED = "grid_provider.changed", "Grid provider changed"
    REMOVED = "grid_provider.removed", "Grid provider removed"


class OwnFactorAct(models.TextChoices):
    """Audit actions on files of own emission factors."""

    IMPORTED = "own_factors.imported", "Own emission factors imported"
    WITHDRAWN = "own_factors.withdrawn", "Own emission factors withdrawn"


class IntensitySource(models.TextChoices):
    """How the grid intensity of a coming hour is known."""

    FORECAST = "forecast", "forecast of the provider"
    USUAL = "usual", "mean of the last 28 days"
