"""Contents of the pages of activities."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.models import Lab
from apps.activity.kinds import KINDS, Kind, control_of, kind_of, pue_text
from apps.activity.models import Activity, RecurringActivity
from apps.activity.selectors import Filters, activities_of, recurring_of_period
from apps.activity.services import Preview
from apps.activity.services.activity_forms import GENERATED_PREFIXES
from apps.carbon.factors import latest_annual
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery, hours_of_us
from apps.carbon.figures.scopes import OPERATION, PROFILE_NAMES, PROFILES, SCOPE_NAMES, scope_of
from apps.core.clock import utc
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number
from apps.core.units import amount_text, emission_ug, facility_mj
from apps.dashboard.activities.filters import FilterForm, parse_filters
from apps.dashboard.decorators import Visitor
from apps.dashboard.figures import Projected, Quantity, quantity
from apps.dashboard.formatting import EMISSION, ENERGY, exact, factor_value, format_value, unit_for

PAGE_ROWS = 50
CSV_HEADER = (
    "id", "external_id", "kind", "name", "project", "from_utc", "to_utc", "zone",
    "factor_ug_per_kwh", "pue_ppm", "energy_mj", "energy_low_mj", "energy_high_mj", "equation",
    "source", "embodied_ug", "withdrawn_utc", "withdrawn_reason",
)  # fmt: skip


@dataclass(frozen=True)
class ActivityRow:
    """An activity in the list."""

    activity: Activity
    energy: str
    range_text: str


@dataclass(frozen=True)
class ActivitiesPage:
    """A page of the list. ``before``, ``after``: addresses."""

    rows: list[ActivityRow]
    form: FilterForm
    number_of_filters: int
    any_activities: bool
    before: str
    after: str
    csv: str
    new: list[Kind]


@dataclass(frozen=True)
class Scope:
    """Scope of an activity under a profile."""

    profile: str
    scope: str


@dataclass(frozen=True)
class PreviewPage:
    """The result of an activity before it is saved. ``factor``: '' for a zone without an annual
    one.
    """

    energy: Projected
    energy_mj: int
    range_text: str
    facility: Projected
    pue: str
    pue_source: str
    emission: Projected | None
    factor: str
    equation: str
    source: str
    embodied: Projected | None
    scopes: list[Scope]


@dataclass(frozen=True)
class ActivityPage:
    """One activity. ``quantities`` None: withdrawn. ``is_counted``: its energy is in the ledger.
    ``external_id``: '' if nobody entered it. ``recurring``: that of which it is a period.
    """

    activity: Activity
    kind: Kind
    energy: str
    range_text: str
    inputs: list[tuple[str, str]]
    external_id: str
    pue: str
    factor: str
    embodied: str
    embodied_range: str
    scopes: list[Scope]
    quantities: dict[str, Quantity] | None
    is_counted: bool
    recurring: RecurringActivity | None


def activities_page(visitor: Visitor, params: Mapping[str, str]) -> ActivitiesPage:
    """Return a page of the list. Three queries."""
    lab = visitor.lab
    form, filters = parse_filters(params, visitor)
    number = page_number(params.get("page", "1"))
    start = (number - 1) * PAGE_ROWS
    listed = list(activities_of(lab, filters)[start : start + PAGE_ROWS + 1])
    has_any = bool(listed) or Activity.objects.filter(lab=lab).exists()

    def address(page: int) -> str:
        return f"?{urlencode({**form.entered, 'page': page})}"

    return ActivitiesPage(
        rows=[
            ActivityRow(row, amount_text(row.energy_mj, ENERGY), range_text(row))
            for row in listed[:PAGE_ROWS]
        ],
        form=form,
        number_of_filters=filters.number,
        any_activities=has_any,
        before=address(number - 1) if number > 1 else "",
        after=address(number + 1) if len(listed) > PAGE_ROWS else "",
        csv=f"{reverse('activities-csv')}?{urlencode(form.entered)}",
        new=list(KINDS.values()),
    )


def csv_rows(lab: Lab, filters: Filters) -> Iterator[tuple[object, ...]]:
    """Return the filtered activities as rows of the CSV."""
    rows = activities_of(lab, filters)
    return (
        (
            row.uuid,
            row.external_id,
            row.kind,
            row.name,
            row.project.slug if row.project else None,
            utc(row.start_us).isoformat(),
            utc(row.end_us).isoformat(),
            row.zone,
            row.ug_per_kwh,
            row.pue_ppm,
            row.energy_mj,
            row.low_mj,
            row.high_mj,
            row.equation,
            row.source,
            row.embodied_ug,
            None if row.withdrawn_us is None else utc(row.withdrawn_us).isoformat(),
            row.withdrawn_reason,
        )
        for row in rows.iterator(chunk_size=1000)
    )


def range_text(row: Activity) -> str:
    """Return the range of the energy of an activity."""
    return f"{amount_text(row.low_mj, ENERGY)} to {amount_text(row.high_mj, ENERGY)}"


def preview_page(lab: Lab, found: Preview) -> PreviewPage:
    """Return the result of an activity before it is saved, with the latest annual factor of its
    zone.
    """
    estimate, ug_per_kwh = found.estimate, found.row.ug_per_kwh
    factor = ""
    if ug_per_kwh is not None:
        factor = f"{factor_value(ug_per_kwh)} as stated"
    elif (annual := latest_annual(lab, found.zone)) and annual.ug_per_kwh is not None:
        ug_per_kwh = annual.ug_per_kwh
        factor = f"{factor_value(ug_per_kwh)}, {annual.name}"
    emission = (
        None
        if ug_per_kwh is None
        else _projected(emission_ug(estimate.energy_mj, found.pue_ppm, ug_per_kwh), "emission_ug")
    )
    return PreviewPage(
        energy=_projected(estimate.energy_mj, "energy_mj"),
        energy_mj=estimate.energy_mj,
        range_text=(
            f"{amount_text(estimate.low_mj, ENERGY)} to {amount_text(estimate.high_mj, ENERGY)}"
        ),
        facility=_projected(facility_mj(estimate.energy_mj, found.pue_ppm), "facility_energy_mj"),
        pue=pue_text(found.pue_ppm),
        pue_source=found.pue_source,
        emission=emission,
        factor=factor,
        equation=estimate.equation,
        source=estimate.source,
        embodied=_projected(found.embodied.value_ug, "embodied_ug") if found.embodied else None,
        scopes=_scopes(found.control),
    )


def activity_page(lab: Lab, row: Activity) -> ActivityPage:
    """Return the page of an activity, with its figures from the ledger."""
    kind = kind_of(row.kind)
    quantities, is_counted = None, False
    if row.withdrawn_us is None:
        from_hour, to_hour = hours_of_us(row.start_us, row.end_us)
        query = FigureQuery(
            metric="energy_mj",
            from_hour=from_hour,
            to_hour=to_hour,
            subject_kind="run",
            subject_key=str(row.uuid),
            basis=lab.basis,
            profile=lab.profile,
        )
        sums = figure(lab, query)
        is_counted = sums.energy_mj == row.energy_mj
        quantities = {
            metric: quantity(query.replace(metric=metric), sums)
            for metric in ("energy_mj", "facility_energy_mj", "emission_ug")
        }
    return ActivityPage(
        activity=row,
        kind=kind,
        energy=amount_text(row.energy_mj, ENERGY),
        range_text=range_text(row),
        inputs=input_texts(kind, row.inputs),
        external_id="" if row.external_id.startswith(GENERATED_PREFIXES) else row.external_id,
        pue=pue_text(row.pue_ppm),
        factor="" if row.ug_per_kwh is None else factor_value(row.ug_per_kwh),
        embodied="" if row.embodied_ug is None else amount_text(row.embodied_ug, EMISSION),
        embodied_range=""
        if row.embodied_low_ug is None or row.embodied_high_ug is None
        else f"{amount_text(row.embodied_low_ug, EMISSION)} to "
        f"{amount_text(row.embodied_high_ug, EMISSION)}",
        scopes=_scopes(control_of(kind, row.inputs)),
        quantities=quantities,
        is_counted=is_counted,
        recurring=recurring_of_period(lab, row.external_id),
    )


def input_texts(kind: Kind, inputs: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return stored inputs as label and text."""
    known = {each.name: each for each in kind.inputs}
    return [
        (
            known[name].label if name in known else name,
            dict(known[name].choices).get(value, value) if name in known else value,
        )
        for name, value in inputs.items()
    ]


def _projected(value: int, metric: str) -> Projected:
    """Return an amount that is not recorded yet, with its exact integer."""
    unit = unit_for(metric, [value])
    return Projected(format_value(value, unit), unit.name, exact(value, metric), "", False)


def _scopes(control: str) -> list[Scope]:
    return [
        Scope(PROFILE_NAMES[profile], SCOPE_NAMES[scope_of(profile, OPERATION, control)])
        for profile in PROFILES
    ]


def page_number(text: str) -> int:
    """Return the number of a page of a list. Raises InvalidInput."""
    number = parse_record_number(text)
    if number is None or not 1 <= number <= 10**7:
        raise InvalidInput(
            f"{text[:20]!r} is not a page.", field="page", hint="Pages count from 1."
        )
    return number
