"""The page Plan a sweep: form, runs with their state, totals, budgets and smaller sweeps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms

from apps.budgets.progress import progress_of
from apps.budgets.selectors import active_budgets
from apps.core.errors import LabCarbonError
from apps.core.text import is_unstorable
from apps.dashboard.budgets.budgets_page import period_label
from apps.dashboard.decorators import Visitor
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import unit_for
from apps.dashboard.forms import ProjectField, TextField
from apps.dashboard.planner.like_run import run_uuid
from apps.planner.sweep_runs.parsing import parse_sweep
from apps.planner.sweep_runs.selectors import SweepPlan, SweepRequest, Totals, plan_sweep
from apps.planner.sweeps.sweep import MAX_RUNS, Sweep
from apps.planner.sweeps.totals import Total

MAX_LISTED = 200
POINTS_HEAD = ("run", "state", "duplicate_of", "finished_run", "parameters")
EXAMPLES = (
    ("Hydra overrides", "lr=0.1,0.01,0.001 model=resnet18,resnet50"),
    (
        "W&B sweep",
        "method: grid\nparameters:\n  lr:\n    values: [0.1, 0.01]\n  seed:\n    value: 1",
    ),
    ("JSON grid", '{"lr": [0.1, 0.01], "epochs": [10, 20]}'),
    ("JSON list", '[{"lr": 0.1, "epochs": 10}, {"lr": 0.01, "epochs": 20}]'),
)
_METRICS = (("energy_mj", "Energy"), ("emission_ug", "Emissions"), ("cost_ucurrency", "Cost"))


class SweepForm(forms.Form):
    """A sweep, the run that it varies, and the project that pays."""

    format = forms.ChoiceField(
        label="Format",
        choices=[("hydra", "Hydra overrides"), ("wandb", "W&B sweep (YAML)"), ("json", "JSON")],
        widget=forms.RadioSelect,
        error_messages={"invalid_choice": "No such format. Choose one of the list."},
    )
    text = forms.CharField(
        label="Sweep",
        strip=False,
        widget=forms.Textarea({"rows": 8, "spellcheck": "false"}),
        error_messages={"required": "Enter a sweep, such as one of the examples."},
    )
    runs = forms.IntegerField(
        label="Runs",
        required=False,
        min_value=1,
        max_value=MAX_RUNS,
        help_text="Of a W&B sweep without run_cap that W&B samples",
    )
    base = TextField(
        label="Earlier run",
        required=False,
        max_length=400,
        help_text="UUID or address of a run that the runs of the sweep resemble",
    )
    project = ProjectField(label="Project", required=False, empty_label="No project")

    def clean_base(self) -> Any:
        text = self.cleaned_data["base"]
        uuid = run_uuid(text)
        if text and uuid is None:
            raise forms.ValidationError(
                "This is no run. Enter its UUID or the address of its page."
            )
        return uuid

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        if is_unstorable(text):
            raise forms.ValidationError("Invalid character. Remove it and try again.")
        return text


@dataclass(frozen=True)
class TotalCell:
    """A total of the new runs. ``total`` None: unknown."""

    key: str
    label: str
    total: Total | None
    likely: Projected | None = None
    low: Projected | None = None
    high: Projected | None = None


@dataclass(frozen=True)
class BudgetLine:
    """What is left of a budget, None: unknown; ``over``: by how much it is exceeded."""

    label: str
    period: str
    amount: Projected
    left: Projected | None
    over: Projected | None
    need: Projected | None


@dataclass(frozen=True)
class PointRow:
    """A run of the sweep. ``state``: see docs/planner.md."""

    number: int
    state: str
    params: str
    duplicate_of: int | None = None
    uuid: str = ""
    started_us: int | None = None


@dataclass(frozen=True)
class AlternativeRow:
    """A smaller sweep."""

    kind: str
    runs: int
    new_runs: int
    values: str
    saved: Sequence[TotalCell]


@dataclass(frozen=True)
class SweepResult:
    """The runs of a valid sweep. ``budgets`` None: no project was chosen."""

    sweep: Sweep
    plan: SweepPlan
    totals: Sequence[TotalCell]
    points: Sequence[PointRow]
    alternatives: Sequence[AlternativeRow]
    budgets: Sequence[BudgetLine] | None

    @property
    def is_known(self) -> bool:
        """Whether it is known which runs are finished."""
        return self.plan.done is not None

    @property
    def listed(self) -> Sequence[PointRow]:
        """Return the first runs that are finished or duplicates."""
        return [row for row in self.points if row.uuid or row.duplicate_of][:MAX_LISTED]


@dataclass(frozen=True)
class SweepPage:
    """The page. ``result`` None: the form was not sent, or it has errors."""

    form: SweepForm
    result: SweepResult | None
    examples: Sequence[tuple[str, str]] = EXAMPLES

    @property
    def status(self) -> int:
        """Return the HTTP status: 400 for a form with errors."""
        return 400 if self.form.is_bound and self.form.errors else 200


def sweep_page(visitor: Visitor, data: Mapping[str, Any] | None) -> SweepPage:
    """Return the page of a form. The number of queries does not depend on the sweep."""
    form = SweepForm(
        data, initial={"format": "hydra"}, label_suffix="", use_required_attribute=False
    )
    project_field = form.fields["project"]
    assert isinstance(project_field, ProjectField)
    project_field.limit_to_lab(visitor.lab)
    if not (form.is_bound and form.is_valid()):
        return SweepPage(form, None)
    chosen = form.cleaned_data
    project = chosen["project"]
    try:
        sweep = parse_sweep(chosen["format"], chosen["text"], chosen["runs"])
        request = SweepRequest(sweep, chosen["base"], project=project.slug if project else "")
        plan = plan_sweep(lab=visitor.lab, request=request)
    except LabCarbonError as error:
        field = error.field if error.field in form.fields else None
        form.add_error(field, f"{error.message} {error.hint}".strip())
        return SweepPage(form, None)
    currency = visitor.lab.currency
    alternatives = [
        AlternativeRow(
            each.kind, len(each.points), each.new_runs,
            json.dumps(each.values, ensure_ascii=False) if each.values else "",
            _cells(each.saved, currency),
        )
        for each in plan.alternatives
    ]  # fmt: skip
    budgets = _budget_lines(visitor, project, plan) if project else None
    return SweepPage(
        form,
        SweepResult(
            sweep, plan, _cells(plan.totals, currency), _points(sweep, plan), alternatives, budgets
        ),
    )


def point_lines(result: SweepResult) -> Iterator[tuple[object, ...]]:
    """Yield the runs of the CSV."""
    for row in result.points:
        yield row.number, row.state, row.duplicate_of, row.uuid, row.params


def _points(sweep: Sweep, plan: SweepPlan) -> list[PointRow]:
    repeated = {each.point: each for each in plan.duplicates or ()}
    rows = []
    for number, point in enumerate(sweep.points or ()):
        params = json.dumps(point, ensure_ascii=False)
        done = (plan.done or {}).get(number)
        if number in repeated:
            rows.append(PointRow(number + 1, "duplicate", params, repeated[number].of + 1))
        elif done:
            state = "possibly finished" if done.is_possible else "finished"
            rows.append(PointRow(number + 1, state, params, None, str(done.uuid), done.started_us))
        else:
            rows.append(PointRow(number + 1, "unknown" if plan.done is None else "new", params))
    return rows


def _cells(totals: Totals, currency: str) -> list[TotalCell]:
    cells = []
    for key, label in _METRICS:
        total: Total | None = getattr(totals, key)
        if total is None:
            cells.append(TotalCell(key, label, None))
            continue
        unit = unit_for(key, [total.likely], currency=currency)
        likely, low, high = (
            None if value is None else estimated(value, key, unit, currency=currency)
            for value in (total.likely, total.low, total.high)
        )
        cells.append(TotalCell(key, label, total, likely, low, high))
    return cells


def _budget_lines(visitor: Visitor, project: Any, plan: SweepPlan) -> list[BudgetLine]:
    budgets = list(active_budgets(visitor.lab).filter(project=project))
    lines = []
    for each in progress_of(visitor.lab, budgets, visitor.now) if budgets else ():
        metric, currency = each.budget.metric, each.budget.currency or visitor.lab.currency
        need: Total | None = getattr(plan.totals, metric)
        is_same = metric != "cost_ucurrency" or currency == visitor.lab.currency
        left = each.amount - each.used.value(metric) if each.has_value else None

        def text(value: int, metric: str = metric, currency: str = currency) -> Projected:
            return estimated(value, metric, currency=currency)

        lines.append(
            BudgetLine(
                str(each.budget.get_metric_display()),
                period_label(each.period),
                text(each.amount),
                text(left) if left is not None and left >= 0 else None,
                text(-left) if left is not None and left < 0 else None,
                text(need.likely) if need and is_same else None,
            )
        )
    return lines
