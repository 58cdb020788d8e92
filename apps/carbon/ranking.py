"""Rank metered assets by carbon per useful hour.

Carbon is the emissions of use and the charged embodied carbon. Useful hours are those of use.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from zoneinfo import ZoneInfo

from django.db.models import Sum

from apps.accounts.models import Lab
from apps.assets.choices import ChargeKind
from apps.assets.device_usage import MS_PER_HOUR
from apps.assets.models import Asset, AssetMeter, EmbodiedCharge
from apps.assets.services.charges import as_charge
from apps.carbon.figures.energy import Figure, figures_of_meters
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.intervals import day_edges
from apps.core.sql import as_int, fetch_rows, second_sum_sql
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import ACTIVE

ONE_TIME_KINDS = (ChargeKind.WRITTEN_OFF, ChargeKind.END_OF_LIFE)  # not charged by use


@dataclass(frozen=True)
class MeterSpan:
    """An asset with one meter over a part of the period."""

    asset_id: int
    device_id: int | None
    node_id: int | None
    query: FigureQuery


@dataclass
class Ranked:
    """One asset over the period.

    ``uses``: its figures, one for each meter; ``idle_mj``: idle part of their energy. Times in ms:
    used (or reserved) and measured. ``charged_ug`` None: embodied carbon unknown.
    """

    asset: Asset
    uses: list[tuple[FigureQuery, Figure]] = field(default_factory=list)
    idle_mj: int = 0
    used_ms: int = 0
    measured_ms: int = 0
    charged_ug: int | None = None
    bought_hour: int = 0

    @cached_property
    def use(self) -> Figure:
        """Return the sum of ``uses``. Read it only after all are added, since it is cached."""
        return sum((figure for _, figure in self.uses), Figure())

    @property
    def unknown(self) -> str:
        """Return the reason why the asset cannot be ranked, '' if it can."""
        if not self.measured_ms and not self.use.entries:
            return "nothing was measured in this period"
        if self.use.without_factor_mj:
            return "a part of its energy has no emission factor on the lab's basis"
        if self.charged_ug is None:
            return "embodied carbon unknown"
        return ""

    @property
    def total_ug(self) -> int:
        return self.use.emission_ug + (self.charged_ug or 0)

    @property
    def ug_per_hour(self) -> int | None:
        """Return µg per used hour. None: not used."""
        return (
            (self.total_ug * MS_PER_HOUR + self.used_ms // 2) // self.used_ms
            if self.used_ms
            else None
        )

    @property
    def ug_per_kwh(self) -> int | None:
        """Return the mean factor of the energy used, without PUE."""
        facility = self.use.facility_energy_mj
        return self.use.emission_ug * 3_600_000_000 // facility if facility > 0 else None


@dataclass(frozen=True)
class Ranking:
    """Metered assets, highest first (unused ones before all), and unranked assets.

    ``without_meter`` is the number of assets without a meter. The period consists of whole days of
    the lab.
    """

    from_hour: int
    to_hour: int
    ranked: list[Ranked]
    unknown: list[Ranked]
    without_meter: int


def ranking(*, lab: Lab, from_hour: int, to_hour: int) -> Ranking:
    """Return the ranking over the days of the lab that touch ``[from_hour, to_hour)``.

    The number of queries does not depend on the number of assets.
    """
    edges = day_edges(from_hour, to_hour, ZoneInfo(lab.time_zone))
    start, end = edges[0], edges[-1]
    meter_spans = _meter_spans(lab, start, end)
    ranked = {
        asset.pk: Ranked(asset)
        for asset in Asset.objects.filter(pk__in={each.asset_id for each in meter_spans})
        .select_related("model")
        .order_by("pk")
    }
    _add_use(lab, meter_spans, ranked)
    _add_hours(lab, meter_spans, ranked)
    _add_charges(lab, ranked, start, end)
    listed = list(ranked.values())
    return Ranking(
        start,
        end,
        ranked=sorted((row for row in listed if not row.unknown), key=_worst_first),
        unknown=sorted(
            (row for row in listed if row.unknown),
            key=lambda row: (row.unknown, row.asset.name, row.asset.pk),
        ),
        without_meter=Asset.objects.filter(lab=lab)
        .exclude(state="disposed")
        .exclude(pk__in=list(ranked))
        .count(),
    )


def _worst_first(row: Ranked) -> tuple[bool, int, int]:
    per_hour = row.ug_per_hour
    return per_hour is not None, -(row.total_ug if per_hour is None else per_hour), row.asset.pk


def _meter_spans(lab: Lab, start: int, end: int) -> list[MeterSpan]:
    """Return the meters of assets by time. One query."""
    histories: dict[int, list[tuple[int, AssetMeter]]] = defaultdict(list)
    for row in AssetMeter.objects.filter(ACTIVE, asset__lab=lab).select_related("device", "node"):
        histories[row.asset_id].append((row.from_hour, row))
    found = []
    for asset_id, history in histories.items():
        for low, high, row in dated_intervals(history):
            begin, stop = max(low, start), min(end if high is None else high, end)
            if begin < stop and (row.device or row.node):
                kind, key = (
                    ("device", row.device.key)
                    if row.device
                    else ("node", str(row.node.uuid) if row.node else "")
                )
                query = FigureQuery("emission_ug", begin, stop, kind, key, basis=lab.basis)
                found.append(MeterSpan(asset_id, row.device_id, row.node_id, query))
    return found


def _add_use(lab: Lab, meter_spans: Sequence[MeterSpan], ranked: dict[int, Ranked]) -> None:
    """Add figures. Two queries."""
    for column in ("device_id", "node_id"):
        selected = [each for each in meter_spans if getattr(each, column)]
        spans = [
            (getattr(each, column), each.query.from_hour, each.query.to_hour) for each in selected
        ]
        figures = figures_of_meters(lab, column, spans)
        for i, each in enumerate(selected):
            whole, idle = figures.get(i, (Figure(), 0))
            ranked[each.asset_id].uses.append((each.query, whole))
            ranked[each.asset_id].idle_mj += idle


def _add_hours(lab: Lab, meter_spans: Sequence[MeterSpan], ranked: dict[int, Ranked]) -> None:
    """Add used and measured time. Two queries.

    The hours of a machine are those of its GPUs, or of its processors if it has no GPU.
    """
    for column in ("device_id", "node_id"):
        selected = [each for each in meter_spans if getattr(each, column)]
        spans = [
            (i, getattr(each, column), each.query.from_hour, each.query.to_hour)
            for i, each in enumerate(selected)
        ]
        times = _times(lab, column, spans)
        for i, each in enumerate(selected):
            kinds = times.get(i, {})
            if each.node_id:
                kinds = next(({kind: kinds[kind]} for kind in ("gpu", "cpu") if kind in kinds), {})
            row = ranked[each.asset_id]
            row.measured_ms += sum(measured for measured, _ in kinds.values())
            row.used_ms += sum(used for _, used in kinds.values())


def _times(
    lab: Lab, column: str, spans: Sequence[tuple[int, int, int, int]]
) -> dict[int, dict[str, tuple[int, int]]]:
    """Return (measured, used) ms by kind of device, for each span.

    A span is (place, device or node id, from hour, to hour). A day that a span touches counts in
    full, since the period consists of whole days.
    """
    if not spans:
        return {}
    times: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    values = ", ".join(f"({int(a)}, {int(b)}, {int(c)}, {int(d)})" for a, b, c, d in spans)
    summed = fetch_rows(
        f"WITH m(place, of_id, from_hour, to_hour) AS (VALUES {values}) "
        "SELECT m.place, d.kind, SUM(y.measured_ms) AS measured_ms, "
        f"SUM({second_sum_sql('y.parts')}) AS used_ms "
        f"FROM m JOIN assets_deviceday y ON y.{column} = m.of_id AND y.from_hour < m.to_hour AND "
        "y.to_hour > m.from_hour "
        "JOIN fleet_device d ON d.id = y.device_id WHERE y.lab_id = %s GROUP BY m.place, d.kind",
        [lab.pk],
    )
    for row in summed:
        times[row["place"]][row["kind"]] = (as_int(row["measured_ms"]), as_int(row["used_ms"]))
    return times


def _add_charges(lab: Lab, ranked: dict[int, Ranked], start: int, end: int) -> None:
    """Add charges of embodied carbon and the hour of purchase. Two queries."""
    for row in ranked.values():
        unknown = row.asset.embodied_total_ug is None or row.asset.embodied_at_least
        row.bought_hour, row.charged_ug = row.asset.bought_hour or 0, None if unknown else 0
    charges = EmbodiedCharge.objects.filter(
        lab=lab, asset_id__in=list(ranked), from_hour__lt=end, to_hour__gt=start
    )
    charges = charges.exclude(kind__in=ONE_TIME_KINDS)
    inside = charges.filter(from_hour__gte=start, to_hour__lte=end)
    for asset_id, amount_ug in (
        inside.values_list("asset_id").annotate(Sum("amount_ug")).order_by("asset_id")
    ):
        _charge(ranked[asset_id], int(amount_ug))
    for part in charges.exclude(from_hour__gte=start, to_hour__lte=end):
        _charge(ranked[part.asset_id], as_charge(part).within(start, end))


def _charge(row: Ranked, amount_ug: int) -> None:
    if row.charged_ug is not None:
        row.charged_ug += amount_ug
