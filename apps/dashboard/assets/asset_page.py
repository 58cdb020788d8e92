"""Contents of the page of one asset: book value, lifecycle and charges."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from apps.accounts.models import Lab, Project
from apps.assets.choices import OPENING, AssetState, ChargeKind
from apps.assets.double_counts import DoubleCount, double_counts
from apps.assets.lifecycle import active_events
from apps.assets.models import Asset, AssetMeter, EmbodiedCharge, LifecycleEvent, StoredVolume
from apps.assets.selectors import (
    Book,
    assets_of,
    books_of,
    charged_by,
    entries_of,
    meters_of,
    through,
    volumes_of,
)
from apps.assets.services.charges import as_charge, as_event
from apps.core.units import PPM
from apps.dashboard.assets.asset_charts import Mark, MonthBars, life
from apps.dashboard.assets.event_rows import EntryRow, entry_rows
from apps.dashboard.assets.figure_queries import AssetQueries, Parts
from apps.dashboard.assets.timeline import (
    ChargedParty,
    Life,
    charged_parties_of,
    charged_party_key,
    in_unit,
    life_of,
    month_name,
)
from apps.dashboard.assets.timeline_table import LifecycleTable, lifecycle_table
from apps.dashboard.charts import Chart
from apps.dashboard.embodied_format import METRIC, Amount, amount, hour_to_us, years
from apps.dashboard.formatting import percent, unit_for
from apps.dashboard.periods import Period, day_text, local

CHARGE_REASONS = {kind.value: kind.label for kind in ChargeKind}


@dataclass(frozen=True)
class Shared:
    """Charges to one party in a period, by reason."""

    charged_to: ChargedParty
    total: Amount
    share: str
    reasons: list[tuple[str, Amount]]


@dataclass(frozen=True)
class PartRow:
    """A part built into the asset."""

    asset: Asset
    total: Amount
    balance: Amount | None


@dataclass(frozen=True)
class AssetPage:
    """One asset."""

    asset: Asset
    known: bool
    total: Amount
    charged: Amount
    balance: Amount
    written_off: Amount
    account_unit: str
    share_left: str
    age: str
    in_use_us: int | None
    life_end_us: int | None
    left: str
    past_end: bool
    chart: Chart | None
    data_table: LifecycleTable | None
    entries: list[EntryRow]
    opening: LifecycleEvent | None
    period: Period
    shared: list[Shared]
    shared_total: Amount | None
    parts: list[PartRow]
    meters: list[AssetMeter]
    meter: AssetMeter | None
    volumes: list[tuple[StoredVolume, str]]
    price: str
    double_counts: list[DoubleCount]

    @property
    def packs(self) -> set[str]:
        """Return the data packs whose figures the page shows."""
        figure = self.opening.figure if self.opening else None
        return {figure.pack} if figure else set()

    @property
    def disposed(self) -> bool:
        return self.asset.state == AssetState.DISPOSED


def price_text(asset: Asset) -> str:
    """Return the price of an asset, '' if unknown."""
    return "" if asset.price_ucurrency is None else f"{Decimal(asset.price_ucurrency) / PPM:.2f}"


def load_life(
    asset: Asset, entries: list[LifecycleEvent], period: Period, hour: int
) -> tuple[Life, list[EmbodiedCharge]]:
    """Return the lifecycle of an asset by month, and its charges. One query."""
    charges = list(
        EmbodiedCharge.objects.filter(asset=asset)
        .select_related("project")
        .order_by("from_hour", "pk")
    )
    projects = {row.project for row in charges if row.project}
    listed = [(as_charge(row), charged_party_key(row.project, row.kind)) for row in charges]
    events = active_events([as_event(entry) for entry in entries])
    return life_of(
        events=events, charges=listed, projects=projects, zone=period.zone, hour=hour
    ), charges


def asset_page(*, lab: Lab, asset: Asset, period: Period, now: int) -> AssetPage:
    """Return one asset. The number of queries does not depend on the number of rows."""
    hour = through(now)
    book = books_of(assets_of(lab).filter(pk=asset.pk), hour).get(asset.pk, Book())
    entries = entries_of(asset)
    service_life, charges = load_life(asset, entries, period, hour)
    known = book.total_ug is not None
    unit = unit_for(METRIC, [book.total_ug or 0])
    rows = entry_rows(entries, [as_charge(row) for row in charges], service_life, known)
    opening = next((row.entry for row in rows if row.active and row.entry.kind in OPENING), None)
    meters = meters_of(asset)
    queries = AssetQueries(lab, asset)
    shared = _shared(lab, asset, queries, period, service_life, now)
    charged_query = queries.charged_to_all(
        period.from_hour, period.to_hour, _parts_of(service_life, period)
    )
    end, disposed_hour = book.life_end_hour, book.disposed_hour
    return AssetPage(
        asset=asset,
        known=known,
        total=amount(
            book.total_ug,
            unit,
            low=book.low_ug,
            high=book.high_ug,
            at_least=book.at_least,
            query=queries.embodied_total(book.bought_hour, hour),
        ),
        charged=amount(book.charged_ug, unit),
        balance=amount(book.balance_ug, unit),
        written_off=amount(
            book.written_off_ug,
            unit,
            query=queries.within(book.bought_hour, hour, ChargeKind.WRITTEN_OFF)
            if book.written_off_ug
            else None,
        ),
        account_unit=unit.name,
        share_left=percent(book.balance_ug, book.total_ug or 0),
        age="" if book.bought_hour is None else years((disposed_hour or hour) - book.bought_hour),
        in_use_us=hour_to_us(book.in_use_hour),
        life_end_us=hour_to_us(end),
        left="" if end is None or disposed_hour is not None else years(abs(end - hour)),
        past_end=end is not None and end < hour and disposed_hour is None,
        chart=_chart(asset, service_life, rows, period, book)
        if known and len(service_life.past) > 1
        else None,
        data_table=lifecycle_table(service_life, period, queries)
        if known and service_life.months
        else None,
        entries=rows,
        opening=opening,
        period=period,
        shared=shared,
        shared_total=amount(sum(row.total.value for row in shared), query=charged_query)
        if shared
        else None,
        parts=_parts(lab, asset, hour),
        meters=meters,
        meter=meters[-1] if meters and (meters[-1].device_id or meters[-1].node_id) else None,
        volumes=[(row, f"{row.gigabytes / 1000:g}") for row in reversed(volumes_of(asset))],
        price=price_text(asset),
        double_counts=double_counts(asset),
    )


def _parts(lab: Lab, asset: Asset, hour: int) -> list[PartRow]:
    inside = assets_of(lab).filter(parent=asset)
    books = books_of(inside, hour)
    rows = []
    for part in inside.order_by("kind", "name", "pk"):
        book = books.get(part.pk, Book())
        total = amount(book.total_ug, at_least=book.at_least)
        rows.append(
            PartRow(part, total, None if book.total_ug is None else amount(book.balance_ug))
        )
    return rows


def _parts_of(
    service_life: Life,
    period: Period,
    listed: Mapping[str, Sequence[tuple[str, int]]] | None = None,
) -> Parts:
    """Return the parties and reasons of all charges in a period, including amounts written off
    in its months.
    """
    months = (
        month
        for month in service_life.months
        if month.from_hour < period.to_hour and month.to_hour > period.from_hour
    )
    written_off = {
        part for month in months for part in month.parts if part[1] == ChargeKind.WRITTEN_OFF
    }
    return written_off | {(who, kind) for who, parts in (listed or {}).items() for kind, _ in parts}


def _shared(
    lab: Lab, asset: Asset, queries: AssetQueries, period: Period, service_life: Life, now: int
) -> list[Shared]:
    """Return the charges of a period by party. Two queries."""
    charges = charged_by(
        lab,
        from_hour=period.from_hour,
        to_hour=period.to_hour,
        now=now,
        group_by=("project", "kind"),
        assets=assets_of(lab).filter(pk=asset.pk),
    )
    projects = Project.objects.in_bulk([project for project, _ in charges if project])
    parts: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for (project, kind), value in sorted(charges.items(), key=lambda item: -item[1]):
        if value:
            parts[charged_party_key(projects.get(project), kind)].append((kind, value))
    sums = {key: sum(value for _, value in listed) for key, listed in parts.items()}
    unit, whole = unit_for(METRIC, sums.values()), sum(sums.values())
    colours = {who.key: who.colour for who in service_life.charged_parties}
    charged_parts = _parts_of(service_life, period, parts)
    span = period.from_hour, period.to_hour
    return [
        Shared(
            replace(party, colour=colours.get(party.key, party.colour)),
            amount(
                sums[party.key], unit, query=queries.charged_to(party.key, *span, charged_parts)
            ),
            percent(sums[party.key], whole),
            [
                (
                    CHARGE_REASONS[kind],
                    amount(value, unit, query=queries.reason(party.key, kind, *span)),
                )
                for kind, value in parts[party.key]
            ],
        )
        for party in charged_parties_of(sums, projects.values())
    ]


def _chart(
    asset: Asset, service_life: Life, rows: list[EntryRow], period: Period, book: Book
) -> Chart:
    unit = unit_for(METRIC, [book.total_ug or 0])

    def line(points: list[tuple[int, int]]) -> tuple[list[str], list[float]]:
        return [_iso(hour, period) for hour, _ in points], [
            in_unit(value, unit) for _, value in points
        ]

    rows_by_hour: dict[int, list[EntryRow]] = defaultdict(list)
    for row in reversed(rows):
        if row.active and row.entry.hour < service_life.past[-1][0]:
            rows_by_hour[row.entry.hour].append(row)
    marks = [
        Mark(
            _iso(hour, period),
            in_unit(service_life.value_at(hour + 1), unit),
            listed[0].name,
            ", ".join(f"{row.name} {row.details}".strip() for row in listed),
        )
        for hour, listed in rows_by_hour.items()
    ]
    months = [
        (
            _iso(month.from_hour, period),
            (month.to_hour - month.from_hour) * 3_600_000.0,
            month_name(month, period.zone),
        )
        for month in service_life.months
    ]
    bars = [
        MonthBars(
            who.name,
            who.colour,
            who.href,
            [in_unit(month.charged_ug(who.key), unit) for month in service_life.months],
        )
        for who in service_life.charged_parties
    ]
    summary = _summary(asset, service_life, period, book)
    return life(
        name="asset-life",
        summary=summary,
        unit=unit.name,
        past=line(service_life.past[1:]),
        ahead=line(service_life.ahead),
        marks=marks,
        months=months,
        bars=bars,
    )


def _iso(hour: int, period: Period) -> str:
    return local(hour, period.zone).strftime("%Y-%m-%dT%H:%M")


def _summary(asset: Asset, service_life: Life, period: Period, book: Book) -> str:
    """Return a summary of the chart."""
    start = day_text(local(service_life.past[0][0], period.zone).date(), year=True)
    text = (
        f"Book value of {asset.name} since {start}: {amount(book.balance_ug).text} remaining of "
        f"{amount(book.total_ug).text}"
    )
    if service_life.charged_parties:
        top = max(
            service_life.charged_parties,
            key=lambda who: sum(month.charged_ug(who.key) for month in service_life.months),
        )
        text += f", largest share charged to {'the lab' if top.key == '~lab' else top.name}"
    if book.disposed_hour is not None:
        return text + f", {amount(book.written_off_ug).text} written off at disposal."
    if book.life_end_hour is not None:
        return (
            text
            + f", planned end {day_text(local(book.life_end_hour, period.zone).date(), year=True)}."
        )
    return text + ". Charging starts when the asset is put into use."
