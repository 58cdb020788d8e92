"""Words for the lines of a statement: metrics, subjects, amounts."""

from collections.abc import Mapping

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import ALLOCATION, INVENTORY
from apps.carbon.figures.scopes import PROFILE_NAMES, SCOPE_NAMES
from apps.carbon.market.choices import RuleEdition
from apps.core.units import PPM
from apps.dashboard.figures import Projected, estimated, signed
from apps.dashboard.formatting import duration, grouped, percent
from apps.dashboard.overview.energy_use import SPECIAL
from apps.dashboard.overview.use_and_hardware import SPECIAL_HARDWARE
from apps.reports.conservation import (
    ASSET,
    COVERAGE,
    EMISSION,
    ENERGY,
    ENTRIES,
    ESTIMATED,
    FACILITY,
    MEASURED,
    UNKNOWN,
    WITHOUT_FACTOR,
)
from apps.reports.market_totals import COVERED_ENERGY, PERIODS, UPSTREAM, subject_of
from apps.reports.rows import LAB, NONE, Row

METRIC_NAMES = {
    ENERGY: "Energy",
    FACILITY: "Facility energy",
    EMISSION: "Emissions",
    WITHOUT_FACTOR: "Energy without a factor",
    ENTRIES: "Ledger entries",
    ALLOCATION: "Hardware, amortised over use",
    INVENTORY: "Hardware, recorded at purchase",
    "assets": "Assets",
    "assets_known": "Assets with a figure",
    MEASURED: "Measured device time",
    ESTIMATED: "Estimated device time",
    UNKNOWN: "Device time without data",
    COVERAGE: "Device time with data",
    COVERED_ENERGY: "Energy covered by instruments",
    UPSTREAM: "Upstream emissions",
    PERIODS: "Matching periods",
}
_AMOUNTS = (
    ENERGY, FACILITY, EMISSION, WITHOUT_FACTOR, ALLOCATION, INVENTORY, COVERED_ENERGY, UPSTREAM,
)  # fmt: skip
_TIMES = (MEASURED, ESTIMATED, UNKNOWN)


def subject_names(lab: Lab) -> dict[str, str]:
    """Return the current names of subjects. Two queries."""
    names = {LAB: "Lab", "~lab": "Lab, without a project"}
    names |= {subject_of(each): f"Market-based, {each.label}" for each in RuleEdition}
    names |= {key: name for key, (name, *_) in (SPECIAL | SPECIAL_HARDWARE).items()}
    for slug, name in lab.projects.values_list("slug", "name"):
        names[f"project:{slug}"] = name
    for pk, name in lab.assets.values_list("pk", "name"):
        names[f"{ASSET}{pk}"] = name
    return names


def subject_name(subject: str, names: Mapping[str, str]) -> str:
    """Return the current name of a subject. One that no longer exists has its key."""
    return names.get(subject) or subject.replace(ASSET, "asset ").replace("project:", "project ")


def line_name(row: Row) -> str:
    """Return what a line states about its subject."""
    name = METRIC_NAMES.get(row.metric, row.metric)
    if row.scope:
        name += f", {SCOPE_NAMES.get(row.scope, row.scope)} ({PROFILE_NAMES[row.profile]})"
    if row.factor and row.is_market:
        name += f", factor {row.factor}"
    elif row.factor:
        factor = "without a factor" if row.factor == NONE else f"factor {row.factor}"
        pue = "without a PUE" if row.pue_ppm == NONE else f"PUE {int(row.pue_ppm) / PPM:g}"
        name += f", {factor}, {pue}"
    return name


def value_text(metric: str, value: int) -> str | Projected:
    """Return the value of a line with its unit."""
    if metric in _AMOUNTS:
        return estimated(value, metric)
    if metric in _TIMES:
        return duration(value)
    return f"{percent(value, PPM)} %" if metric == COVERAGE else grouped(value)


def change_text(metric: str, change: int) -> str | Projected:
    """Return the difference of two values of a line, with its sign and unit."""
    if metric in _AMOUNTS:
        return signed(change, metric)
    sign = "+" if change > 0 else "−" if change < 0 else ""
    if metric in _TIMES:
        return f"{sign}{duration(abs(change))}"
    text = f"{abs(change) / 10_000:.4g} points" if metric == COVERAGE else grouped(abs(change))
    return f"{sign}{text}"
