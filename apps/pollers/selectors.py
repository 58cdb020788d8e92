"""Reads of asset sources."""

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.pollers.models import AssetSource, PolledRow


def sources_of(lab: Lab) -> QuerySet[AssetSource]:
    """Return the sources of a lab that are not removed, by name."""
    rows = AssetSource.objects.filter(lab=lab, removed_us=None)
    return rows.select_related("lab", "created_by", "pending_import").order_by("name", "pk")


def source_of(lab: Lab, pk: int) -> AssetSource | None:
    """Return a source of the lab, or None."""
    return sources_of(lab).filter(pk=pk).first() if pk < 2**63 else None


def rows_of(source: AssetSource) -> list[PolledRow]:
    """Return all rows of a source with their assets, by number."""
    return list(source.rows.select_related("asset").order_by("number"))


def troubled_sources(lab: Lab, limit: int) -> list[AssetSource]:
    """Return sources with a problem."""
    return list(sources_of(lab).filter(enabled=True).exclude(problem="")[:limit])
