"""Quantities of pages: figure query, exact integer, and text. All amounts of energy and carbon
use this module.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.figures.combined import CombinedFigure
from apps.carbon.figures.energy import Figure, sum_figures
from apps.carbon.figures.figure_query import COST, HARDWARE_METRICS, HARDWARE_OF, FigureQuery
from apps.catalog.models import EmbodiedFigure
from apps.dashboard.addresses import address
from apps.dashboard.formatting import (
    KG,
    Unit,
    exact,
    format_value,
    grouped,
    percent,
    stored_unit,
    unit_for,
)

NO_FACTOR = "no factor: choose a zone"
NO_DIRECT_FACTOR = "no direct factor"  # few zones have one
NO_HARDWARE = "unknown: no figure for this hardware"
NO_PRICE = "no price: record that of the site"
NO_PUE = "PUE unknown: place the node at a site"


@dataclass(frozen=True)
class Quantity:
    """An amount for the template tag. ``missing``: text instead of an unknown number;
    ``at_least``: a total without the emissions of some energy that has no factor.
    """

    query: FigureQuery
    value: int
    number: str
    unit: str
    exact: str
    missing: str = ""
    at_least: bool = False

    @property
    def data(self) -> str:
        return self.query.to_query_string()

    @property
    def href(self) -> str:
        return f"{address('explain')}?{self.data}"

    @property
    def title(self) -> str:
        """Return the tooltip."""
        if self.missing:
            if self.missing == NO_HARDWARE:
                return "The hardware is known, what it emitted when it was made is not"
            unknown = {NO_PUE: "PUE", NO_PRICE: "price"}.get(self.missing, "emission factor")
            return f"The energy is known, its {unknown} is not"
        lacking = dict.fromkeys(HARDWARE_METRICS, "hardware without a figure")
        lacking |= dict.fromkeys(HARDWARE_OF, "use or hardware without a figure")
        lacking[COST] = "energy without a price in this currency"
        more = (
            f", and some {lacking.get(self.query.metric, 'energy without an emission factor')}"
            if self.at_least
            else ""
        )
        return f"{self.exact} exactly{more}. Open the explanation"

    @property
    def text(self) -> str:
        """Return the figure as plain text, for sentences, titles and citations."""
        return self.missing or f"{'at least ' if self.at_least else ''}{self.number} {self.unit}"


def quantity(query: FigureQuery, figure: Figure, unit: Unit | None = None) -> Quantity:
    """Return the quantity of ``query`` from a figure, in ``unit`` (default: a suitable one)."""
    value = figure.value(query.metric)
    unit = unit or unit_for(query.metric, [value], currency=query.currency)
    missing = ""
    if query.metric == "emission_ug" and figure.without_factor_mj and not value:
        missing = no_factor(query)
    elif query.metric == "facility_energy_mj" and figure.energy_mj and not value:
        missing = NO_PUE
    elif query.metric == COST and figure.energy_mj and not _is_priced(query, figure):
        missing = NO_PRICE
    lacking_mj = {"emission_ug": figure.without_factor_mj, COST: figure.without_price_mj}
    return Quantity(
        query=query,
        value=value,
        number=format_value(value, unit),
        unit=unit.name,
        exact=exact(value, query.metric, query.currency),
        missing=missing,
        at_least=bool(lacking_mj.get(query.metric)) and not missing,
    )


def no_factor(query: FigureQuery) -> str:
    """Return the text for emissions of energy without a factor on the basis of the query."""
    return NO_DIRECT_FACTOR if query.basis == Basis.DIRECT else NO_FACTOR


def _is_priced(query: FigureQuery, figure: Figure) -> bool:
    """Return whether some of the energy has a price. A price of 0 is one."""
    return bool(query.currency) and figure.without_price_mj != figure.energy_mj


def cost_quantity(lab: Lab, query: FigureQuery, figure: Figure) -> Quantity | None:
    """Return the cost of a figure in the lab's currency, None for a lab without any price."""
    if not lab.currency:
        return None
    return quantity(query.replace(metric=COST, currency=lab.currency), figure)


def carbon_quantity(combined: CombinedFigure, unit: Unit | None = None) -> Quantity:
    """Return a quantity of hardware, or of use and hardware. Assets without a figure make it a
    lower bound.
    """
    query, value, covered = combined.query, combined.value, combined.coverage
    unit = unit or unit_for(query.metric, [value])
    unknown = covered is not None and covered.known < covered.assets
    missing = ""
    if (
        not value
        and query.metric in HARDWARE_METRICS
        and covered is not None
        and covered.assets
        and not covered.known
    ):
        missing = NO_HARDWARE
    elif not value and combined.without_factor_mj:
        missing = no_factor(query)
    return Quantity(
        query=query,
        value=value,
        number=format_value(value, unit),
        unit=unit.name,
        exact=exact(value, query.metric, query.currency),
        missing=missing,
        at_least=(unknown or bool(combined.without_factor_mj)) and not missing,
    )


def entered_quantity(combined: CombinedFigure, unit: Unit | None = None) -> Quantity | None:
    """Return the same, None if nothing was entered."""
    entered = carbon_quantity(combined, unit)
    return entered if combined.entries or entered.missing else None


def amount_quantity(query: FigureQuery, value: int, unit: Unit | None = None) -> Quantity:
    """Return a row of a total. Unknown parts are shown with the total only."""
    unit = unit or unit_for(query.metric, [value], currency=query.currency)
    return Quantity(
        query=query,
        value=value,
        number=format_value(value, unit),
        unit=unit.name,
        exact=exact(value, query.metric, query.currency),
    )


def exact_quantity(query: FigureQuery, value: int) -> Quantity:
    """Return the stored integer of a figure, in its stored unit."""
    return Quantity(
        query=query,
        value=value,
        number=grouped(value),
        unit=stored_unit(query.metric, query.currency),
        exact=exact(value, query.metric, query.currency),
    )


def percent_quantity(query: FigureQuery, part: int, whole: int) -> Quantity:
    """Return a percentage as a figure: its query and integer are the numerator's."""
    exact_text = " of ".join(
        exact(amount, query.metric, query.currency) for amount in (part, whole)
    )
    return Quantity(
        query=query, value=part, number=percent(part, whole), unit="%", exact=exact_text
    )


@dataclass(frozen=True)
class EnergyAndEmissions:
    """Energy and emissions of the same query."""

    energy: Quantity
    emission: Quantity


@dataclass(frozen=True)
class Units:
    """The units of a table's columns."""

    energy: Unit
    emission: Unit


def column_units(figures: Iterable[Figure]) -> Units:
    """Return one unit per column, suitable for the largest figure."""
    all_figures = list(figures)
    return Units(
        unit_for("energy_mj", [part.energy_mj for part in all_figures], column=True),
        unit_for("emission_ug", [part.emission_ug for part in all_figures], column=True),
    )


def energy_and_emissions(
    query: FigureQuery, figure: Figure, units: Units | None = None
) -> EnergyAndEmissions:
    """Return both figures of a query."""
    return EnergyAndEmissions(
        quantity(query.replace(metric="energy_mj"), figure, units.energy if units else None),
        quantity(query.replace(metric="emission_ug"), figure, units.emission if units else None),
    )


def total(figures: Iterable[Figure]) -> Figure:
    """Return the sum of figures, exactly."""
    return sum_figures(figures)


@dataclass(frozen=True)
class Projected:
    """A quantity as it would be if a fact were recorded. It is not stored, so it has no
    explanation and is no link.
    """

    number: str
    unit: str
    exact: str
    missing: str
    at_least: bool


def projected(query: FigureQuery, figure: Figure, unit: Unit | None = None) -> Projected:
    """Return the quantity of ``query`` from a projected figure."""
    recorded = quantity(query, figure, unit)
    return Projected(
        recorded.number, recorded.unit, recorded.exact, recorded.missing, recorded.at_least
    )


def estimated(
    value: int,
    metric: str = "energy_mj",
    unit: Unit | None = None,
    *,
    at_least: bool = False,
    currency: str = "",
) -> Projected:
    """Return an amount computed on the same page, which also shows its parts."""
    unit = unit or unit_for(metric, [value], currency=currency)
    text = exact(value, metric, currency)
    return Projected(format_value(value, unit), unit.name, text, "", at_least)


def signed(value: int, metric: str, unit: Unit | None = None, *, currency: str = "") -> Projected:
    """Return a difference with its sign."""
    shown = estimated(value, metric, unit, currency=currency)
    return replace(shown, number=f"+{shown.number}") if value > 0 else shown


@dataclass(frozen=True)
class ChangeSince:
    """What a figure has changed by since: 'unchanged', 'up' or 'down' by its size without sign."""

    direction: str
    size: Projected


def change_since(change: int, metric: str) -> ChangeSince:
    """Return a difference in words."""
    direction = "up" if change > 0 else "down" if change < 0 else "unchanged"
    return ChangeSince(direction, estimated(abs(change), metric))


@dataclass(frozen=True)
class EmbodiedQuantity:
    """An amount of the catalogue, in kg CO2e. Its explanation is the catalogue entry with source
    and licence.
    """

    figure: EmbodiedFigure
    value: int

    @property
    def number(self) -> str:
        return format_value(self.value, KG)

    @property
    def exact(self) -> str:
        return exact(self.value, "emission_ug")

    @property
    def href(self) -> str:
        return f"{address('catalog-model', self.figure.model_id)}#figure-{self.figure.pk}"
