"""Figure query of each amount on an asset's page, None if a single query cannot select it."""

from collections.abc import Collection

from apps.accounts.models import Lab
from apps.assets.choices import ChargeKind
from apps.assets.models import Asset
from apps.carbon.figures.figure_query import ALLOCATION, HIDDEN, INVENTORY, FigureQuery
from apps.dashboard.assets.timeline import LAB, NOBODY

Parts = Collection[tuple[str, str]]  # (party's key, kind) of the charges in an interval


class AssetQueries:
    """Figure queries of one asset of a lab."""

    def __init__(self, lab: Lab, asset: Asset) -> None:
        self._query = FigureQuery(
            ALLOCATION, 0, 0, "asset", str(asset.pk), basis=lab.basis, profile=lab.profile
        )

    def embodied_total(self, from_hour: int | None, to_hour: int) -> FigureQuery | None:
        """Return the query of the embodied carbon."""
        return (
            self._query.replace(metric=INVENTORY, from_hour=from_hour, to_hour=to_hour)
            if from_hour is not None
            else None
        )

    def within(self, from_hour: int | None, to_hour: int, kind: str = "") -> FigureQuery | None:
        """Return the query of all charges in a period, or of those with one reason."""
        if from_hour is None:
            return None
        return self._query.replace(from_hour=from_hour, to_hour=to_hour, consumer=kind)

    def charged_to(
        self, who: str, from_hour: int, to_hour: int, parts: Parts
    ) -> FigureQuery | None:
        """Return the query of charges to one party in a period, without written-off amounts."""
        is_written_off, has_unattributed = (
            (who, ChargeKind.WRITTEN_OFF) in parts,
            any(each == NOBODY for each, _ in parts),
        )
        if is_written_off or (who == LAB and has_unattributed):
            return None
        return self._whose(who).replace(from_hour=from_hour, to_hour=to_hour)

    def charged_to_all(self, from_hour: int, to_hour: int, parts: Parts) -> FigureQuery | None:
        """Return the query of charges to all parties in a period, without written-off amounts."""
        is_written_off = any(kind == ChargeKind.WRITTEN_OFF for _, kind in parts)
        return None if is_written_off else self.within(from_hour, to_hour)

    def reason(self, who: str, kind: str, from_hour: int, to_hour: int) -> FigureQuery:
        """Return the query of charges to one party for one reason."""
        whose = self._whose(who)
        return (whose if who == NOBODY else whose.replace(consumer=kind)).replace(
            from_hour=from_hour, to_hour=to_hour
        )

    def _whose(self, who: str) -> FigureQuery:
        if who == NOBODY:
            return self._query.replace(consumer="unattributed")
        return self._query.replace(project=HIDDEN if who == LAB else who)
