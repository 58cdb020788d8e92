"""Content of the scopes page: energy and emissions by scope and category in each profile, and
the sites.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.activity.embodied_shares import EmbodiedShare, embodied_share
from apps.carbon.figures.combined import CombinedFigure, split_query
from apps.carbon.figures.embodied import Coverage, Embodied, coverage, embodied, embodied_in
from apps.carbon.figures.energy import Figure, figure
from apps.carbon.figures.figure_query import (
    ALLOCATION,
    INVENTORY,
    TOGETHER,
    TOGETHER_INVENTORY,
    FigureQuery,
)
from apps.carbon.figures.scopes import (
    EMBODIED,
    GHG_PROTOCOL,
    LEASED,
    LESSON,
    OPERATION,
    PROFILE_NAMES,
    SCOPE_NAMES,
    UPSTREAM,
    WASTE,
    beyond_the_lesson,
)
from apps.core.units import amount_text
from apps.dashboard.figures import Quantity, carbon_quantity, entered_quantity, quantity
from apps.dashboard.formatting import EMISSION, Unit, unit_for
from apps.dashboard.periods import Period, lab_query
from apps.dashboard.statements.closed_figures import ClosedFigures, closed_figures
from apps.fleet.models import Site

LEDGERS = {
    ALLOCATION: "Amortised over use (allocation)",
    INVENTORY: "Recorded at purchase (inventory)",
}
WHOLE = {ALLOCATION: TOGETHER, INVENTORY: TOGETHER_INVENTORY}
# (scope, role, activity) of each line, per profile: the table of docs/scopes.md.
LINES: dict[str, tuple[tuple[str, str, str], ...]] = {
    GHG_PROTOCOL: (
        ("2", OPERATION, "Training, serving and storage on electricity the lab answers for"),
        ("3.1", OPERATION, "Clusters outside the reporting boundary, cloud"),
        ("3.2", EMBODIED, "Buying and updating GPUs, servers, file servers"),
        ("3.3", UPSTREAM, "Grid losses, upstream of fuels"),
        ("3.5", WASTE, "Disposal of retired hardware, as far as it differs from the estimate"),
        ("3.8", LEASED, "Leasing GPUs, servers, file servers"),
    ),
    LESSON: (
        ("2", OPERATION, "Training, serving and storage, wherever it runs"),
        ("3", EMBODIED, "Buying, updating and disposing of hardware"),
        ("3", UPSTREAM, "Grid losses, upstream of fuels"),
    ),
}


@dataclass(frozen=True)
class ScopeLine:
    """A line: energy and emissions, or in ``note`` the reason why it has none."""

    scope: str
    name: str
    role: str
    activity: str
    energy: Quantity | None
    emission: Quantity | None
    note: str
    beyond_lesson: bool


@dataclass(frozen=True)
class ProfileTable:
    """The table of one profile, with its sums. Energy and grand total are the same in all
    profiles.
    """

    profile: str
    name: str
    lines: list[ScopeLine]
    scopes: list[tuple[str, Quantity | None]]
    energy: Quantity
    total: Quantity


@dataclass(frozen=True)
class CloudHardware:
    """Embodied carbon of the GPUs of cloud instances, as activities state it."""

    share: EmbodiedShare
    value: str
    range_text: str


@dataclass(frozen=True)
class ScopesPage:
    """The scopes page. ``known_assets``: '3 of 4', '' for a lab without assets. ``cloud_hardware``:
    beside the sums, None without activities with GPUs.
    """

    period: Period
    ledger: str
    ledgers: list[tuple[str, str, bool]]
    tables: list[ProfileTable]
    both: bool
    known_assets: str
    cloud_hardware: CloudHardware | None
    energy_unit: Unit
    unit: Unit
    sites: list[Site]
    closed: ClosedFigures | None


@dataclass(frozen=True)
class _Units:
    energy: Unit
    emission: Unit


class _FigureCache:
    """Figures of one page, each read once. Amortised hardware is read by days."""

    def __init__(self, lab: Lab, now: int) -> None:
        self._lab, self._now = lab, now
        self._use: dict[FigureQuery, Figure] = {}
        self._hardware: dict[FigureQuery, Embodied] = {}
        self._covered: dict[FigureQuery, Coverage] = {}

    def __call__(self, query: FigureQuery) -> CombinedFigure:
        use, hardware = split_query(query)
        if hardware is None:
            return CombinedFigure(query, self._figure(use)) if use else CombinedFigure(query)
        return CombinedFigure(
            query,
            self._figure(use) if use else Figure(),
            self._embodied(hardware),
            self._coverage(hardware),
        )

    def _figure(self, query: FigureQuery) -> Figure:
        key = query.replace(metric="energy_mj", profile=query.profile if query.scope else "")
        if key not in self._use:
            self._use[key] = figure(self._lab, query)
        return self._use[key]

    def _embodied(self, query: FigureQuery) -> Embodied:
        key = query.replace(profile=query.profile if query.scope else "")
        if key not in self._hardware:
            if query.metric == ALLOCATION:
                parts = embodied_in(self._lab, query, query.hours, self._now)
                self._hardware[key] = sum(parts.values(), Embodied())
            else:
                self._hardware[key] = embodied(self._lab, query, self._now)
        return self._hardware[key]

    def _coverage(self, query: FigureQuery) -> Coverage:
        key = query.replace(metric="", scope="", profile="")
        if key not in self._covered:
            self._covered[key] = coverage(self._lab, query, self._now)
        return self._covered[key]


def scopes_page(
    *, lab: Lab, period: Period, profile: str, ledger: str, both: bool, now: int
) -> ScopesPage:
    """Return the page. The number of queries does not depend on the number of rows."""
    query, figure_of = lab_query(lab, period), _FigureCache(lab, now)
    whole = figure_of(query.replace(metric=WHOLE[ledger]))
    units = _Units(
        unit_for("energy_mj", [whole.use.energy_mj], column=True),
        unit_for(WHOLE[ledger], [whole.value], column=True),
    )
    profiles = [profile, *(key for key in PROFILE_NAMES if both and key != profile)]
    covered = whole.coverage
    return ScopesPage(
        period=period,
        ledger=ledger,
        ledgers=[(key, name, key == ledger) for key, name in LEDGERS.items()],
        tables=[_table(query.replace(profile=key), ledger, units, figure_of) for key in profiles],
        both=both,
        known_assets=f"{covered.known} of {covered.assets}" if covered and covered.assets else "",
        cloud_hardware=_cloud_hardware(lab, query),
        energy_unit=units.energy,
        unit=units.emission,
        sites=list(Site.objects.filter(lab=lab).order_by("name", "pk")),
        closed=closed_figures(lab, period, whole.use),
    )


def _cloud_hardware(lab: Lab, query: FigureQuery) -> CloudHardware | None:
    share = embodied_share(lab, query.from_hour, query.to_hour)
    if not share.activities and not share.unknown:
        return None
    low, high = (amount_text(each, EMISSION) for each in (share.low_ug, share.high_ug))
    return CloudHardware(share, amount_text(share.value_ug, EMISSION), f"{low} to {high}")


def _table(query: FigureQuery, ledger: str, units: _Units, figure_of: _FigureCache) -> ProfileTable:
    lines = []
    for scope, role, activity in LINES[query.profile]:
        lines.append(_line(query.replace(scope=scope), role, activity, ledger, units, figure_of))
    whole = query.replace(metric=WHOLE[ledger])
    combined = figure_of(whole)
    return ProfileTable(
        profile=query.profile,
        name=PROFILE_NAMES[query.profile],
        lines=lines,
        scopes=[
            (SCOPE_NAMES[scope], _sum(whole.replace(scope=scope), units, figure_of))
            for scope in ("2", "3")
        ],
        energy=quantity(query.replace(metric="energy_mj"), combined.use, units.energy),
        total=carbon_quantity(combined, units.emission),
    )


def _sum(query: FigureQuery, units: _Units, figure_of: _FigureCache) -> Quantity | None:
    """Return the sum of a scope, None if it has no entries."""
    return entered_quantity(figure_of(query), units.emission)


def _line(
    query: FigureQuery,
    role: str,
    activity: str,
    ledger: str,
    units: _Units,
    figure_of: _FigureCache,
) -> ScopeLine:
    energy = emission = None
    note = ""
    if role == OPERATION:
        combined = figure_of(query.replace(metric="emission_ug"))
        if combined.entries:
            energy = quantity(query.replace(metric="energy_mj"), combined.use, units.energy)
            emission = quantity(query.replace(metric="emission_ug"), combined.use, units.emission)
    elif role == UPSTREAM:
        note = (
            "inside the electricity above: lifecycle factors include it"
            if query.basis == "lifecycle"
            else "unknown: no factor for losses and upstream is loaded"
        )
    else:
        combined = figure_of(query.replace(metric=ledger))
        covered = combined.coverage
        if covered is not None and covered.assets:
            emission = entered_quantity(combined, units.emission)
        else:
            note = "no asset is registered"
    return ScopeLine(
        query.scope,
        SCOPE_NAMES[query.scope],
        role,
        activity,
        energy,
        emission,
        note,
        beyond_the_lesson(role),
    )


def scope_rows(lab: Lab, period: Period, ledger: str, now: int) -> Sequence[tuple[object, ...]]:
    """Return the lines of both profiles with exact integers, and their sums."""
    rows: list[tuple[object, ...]] = []
    page = scopes_page(
        lab=lab, period=period, profile=GHG_PROTOCOL, ledger=ledger, both=True, now=now
    )
    for table in page.tables:
        rows += [
            (
                table.profile,
                line.scope,
                line.role,
                line.activity,
                ledger,
                _value(line.energy),
                _value(line.emission),
                line.note,
                "yes" if line.beyond_lesson else "",
            )
            for line in table.lines
        ]
        rows.append(
            (table.profile, "", "total", "", ledger, table.energy.value, table.total.value, "", "")
        )
    return rows


def _value(quantity: Quantity | None) -> int | None:
    return None if quantity is None or quantity.missing else quantity.value
