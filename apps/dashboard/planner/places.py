"""Table "Where to run it" of the page Planner."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from apps.core.errors import InvalidInput
from apps.core.units import PPM
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import Unit, unit_for
from apps.dashboard.planner.forms import PlannerForm
from apps.dashboard.planner.range_cells import RangeCell, range_cell, shown_time
from apps.planner.evidence import Evidence
from apps.planner.formulas.ranges import Range
from apps.planner.places.needs import job_needs
from apps.planner.places.place import JobNeeds, Place, PlaceKind
from apps.planner.places.selectors import DEFAULT_COLUMN, places_for, sort_places
from apps.planner.services import ComputedEstimate

# Columns in order: sort key, label, field of Place, metric of its integers ('': shown otherwise).
COLUMNS = (
    ("fit", "Memory", "fit", ""),
    ("free", "Free GPUs", "load", ""),
    ("time", "Time", "time_us", ""),
    ("energy", "Energy", "node_energy_mj", "energy_mj"),
    ("carbon", "Electricity", "location_ug", "emission_ug"),
    ("market", "Market-based", "market_ug", "emission_ug"),
    ("embodied", "Embodied", "embodied_ug", "emission_ug"),
    ("cost", "Cost", "cost_ucurrency", "cost_ucurrency"),
    ("efficiency", "Samples per joule", "usamples_per_joule", ""),
)
SHOWN_CLOUD = 6  # instances on the page; the CSV has all
SORTS = ("name", *(key for key, _, _, _ in COLUMNS))
_DESCENDING_FIRST = {"free", "efficiency"}
FITS = {"fits": "Fits", "borderline": "Borderline", "does_not_fit": "Does not fit"}
_KINDS = {PlaceKind.NODE: "", PlaceKind.PARTITION: "Partition", PlaceKind.CLOUD: "Cloud"}


@dataclass(frozen=True)
class PlaceColumn:
    """A column with the address that sorts by it; ``direction``: '', ascending, descending."""

    key: str
    label: str
    href: str
    direction: str


@dataclass(frozen=True)
class PlaceRow:
    """A place. ``start``: the greenest start of the next day, '' without a better one."""

    place: Place
    kind: str
    fit: str
    free: str
    cells: Sequence[RangeCell]
    start: str
    older: str


@dataclass(frozen=True)
class PlaceTable:
    """All places in their order. ``shown``: own places, and the first cloud instances.
    ``left_out``: cloud instances that were not computed. ``gpus``: number that the training uses.
    """

    head: PlaceColumn
    columns: Sequence[PlaceColumn]
    rows: Sequence[PlaceRow]
    cloud_missing: str
    left_out: int
    gpus: int

    @property
    def shown(self) -> list[PlaceRow]:
        """Return the rows of the page."""
        cloud = [row for row in self.rows if row.place.kind == PlaceKind.CLOUD]
        hidden = {row.place.key for row in cloud[SHOWN_CLOUD:]}
        return [row for row in self.rows if row.place.key not in hidden]

    @property
    def hidden_cloud(self) -> int:
        """Return the number of computed places that the page does not show."""
        return len(self.rows) - len(self.shown)


def place_table(
    evidence: Evidence,
    form: PlannerForm,
    computed: ComputedEstimate | None,
    sort: str,
    now: int,
) -> PlaceTable | None:
    """Return the places for a valid form and its estimate, None if neither the operations of the
    training nor a measurement of it are known.

    Raises InvalidInput for an unknown order.
    """
    column, descending = sort.removeprefix("-"), sort.startswith("-")
    if column not in SORTS:
        raise InvalidInput(
            f"{sort!r} is not a column.", field="sort", hint=f"Choose of {', '.join(SORTS)}."
        )
    lab = evidence.lab
    needs = _needs(evidence, form, computed)
    if needs is None:
        return None
    found = places_for(lab, needs, now)
    places = sort_places(found.places, column, descending=descending)
    units = {
        field: unit_for(
            metric, [each.likely for place in places if (each := getattr(place, field))]
        )
        for _, _, field, metric in COLUMNS
        if metric and metric != "cost_ucurrency"
    }
    names = {place.key: f"{place.name} ({place.card.name})" for place in places}
    zone = ZoneInfo(lab.time_zone)
    rows = [_row(place, units, names, zone) for place in places]
    head, *columns = (
        _column(key, label, form.query, sort)
        for key, label in (("name", "Place"), *((key, label) for key, label, _, _ in COLUMNS))
    )
    return PlaceTable(head, columns, rows, found.cloud_missing, found.left_out, needs.gpus)


def _needs(
    evidence: Evidence, form: PlannerForm, computed: ComputedEstimate | None
) -> JobNeeds | None:
    memory = form.memory
    if computed is None:
        return None
    total = memory.total if memory else None
    needed = Range(total.low, total.likely, total.high) if total else None
    needs = job_needs(evidence, computed, needed)
    return needs if needs.flops or needs.reference else None


def _column(key: str, label: str, query: str, sort: str) -> PlaceColumn:
    current = sort.removeprefix("-") == key
    descending = sort.startswith("-")
    target = key if not current else key if descending else f"-{key}"
    if not current and key in _DESCENDING_FIRST:
        target = f"-{key}"
    direction = ("descending" if descending else "ascending") if current else ""
    return PlaceColumn(key, label, f"?{query}&sort={target}#places", direction)


def _row(place: Place, units: dict[str, Unit], names: dict[str, str], zone: ZoneInfo) -> PlaceRow:
    return PlaceRow(
        place=place,
        kind=_KINDS[place.kind],
        fit=FITS[place.fit] if place.fit else "",
        free=_free(place),
        cells=[
            _cell(place, key, field, metric, units.get(field))
            for key, _, field, metric in COLUMNS
            if key not in ("fit", "free")
        ],
        start=_start(place, zone),
        older=names.get(place.greener_older, ""),
    )


def _cell(place: Place, key: str, field: str, metric: str, unit: Unit | None) -> RangeCell:
    show: Callable[[int], Projected] = shown_time
    if key == "efficiency":
        show = _shown_efficiency
    elif metric:
        show = partial(estimated, metric=metric, unit=unit, currency=place.currency)
    figure: Range | None = getattr(place, field)
    unit_name = field.rsplit("_", 1)[1]
    return range_cell(key, "", unit_name, figure, show, place.reasons.get(field, "Unknown."))


def _shown_efficiency(value: int) -> Projected:
    return Projected(_three_digits(value), "", f"{value} millionths", "", at_least=False)


def _three_digits(millionths: int) -> str:
    """Return a number of millionths with three significant digits."""
    text = f"{millionths / PPM:.3g}"
    return f"{float(text):.0f}" if "e" in text else text


def _free(place: Place) -> str:
    load = place.load
    if load is None:
        return ""
    if load.silent and not load.free and not load.busy:
        return "silent"
    return f"{load.free} of {place.gpus}"


def _start(place: Place, zone: ZoneInfo) -> str:
    now, greenest = place.starts_now, place.greenest_start
    if now is None or greenest is None or greenest.hour == now.hour:
        return ""
    return f"{datetime.fromtimestamp(greenest.hour * 3600, zone):%a %H:%M}"


DEFAULT_SORT = DEFAULT_COLUMN
