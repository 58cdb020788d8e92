"""Content of the page Planner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.urls import reverse

from apps.accounts.models import Lab, Project
from apps.core.clock import now_us, utc
from apps.dashboard.decorators import or_not_found
from apps.dashboard.periods import day_text
from apps.dashboard.planner.checkpoints import CheckpointCard, CheckpointForm, checkpoint_card
from apps.dashboard.planner.estimate import EstimateCard, compute_or_refuse, estimate_card
from apps.dashboard.planner.forms import PlannerForm
from apps.dashboard.planner.job import job_input
from apps.dashboard.planner.layers import LayerRow, drawn_rows
from apps.dashboard.planner.like_run import LikeRun, like_run, run_uuid
from apps.dashboard.planner.place_choices import place_value
from apps.dashboard.planner.places import DEFAULT_SORT, PlaceTable, place_table
from apps.dashboard.planner.result import Result, planner_result
from apps.dashboard.planner.what_ifs import WhatIfTable, what_if_table
from apps.planner.cards import MarketSize, NodeCard, market_sizes, node_cards
from apps.planner.evidence import read_evidence
from apps.planner.job_input import JobInput
from apps.planner.past_run_facts import newest_finished_runs, past_training
from apps.runs.models import Run
from apps.runs.selectors import run_of


@dataclass(frozen=True)
class RunChoice:
    """A run that can be loaded: name and start."""

    uuid: UUID
    label: str


@dataclass(frozen=True)
class PlannerPage:
    """The page. ``estimate`` None: the form was not sent, or it has errors. ``result`` None: also
    without a model. ``places`` None: also if the work of the training is unknown. ``runs``: the
    newest that can be loaded. ``too_few_gpus``: warning about the chosen node.
    """

    form: PlannerForm
    runs: Sequence[RunChoice]
    result: Result | None = None
    estimate: EstimateCard | None = None
    places: PlaceTable | None = None
    too_few_gpus: str = ""
    what_ifs: WhatIfTable | None = None
    checkpoints: CheckpointCard | None = None

    @property
    def status(self) -> int:
        """Return the HTTP status: 400 for a form with errors."""
        is_wrong = self.form.is_bound and self.form.errors
        return 400 if is_wrong or (self.checkpoints and self.checkpoints.form.errors) else 200

    @property
    def like(self) -> LikeRun | None:
        """Return the run that the plan is like."""
        return self.form.like

    @property
    def heading(self) -> str:
        """Return time and energy of the estimate, for a plan without a model."""
        rows = {row.key: row for row in self.estimate.rows} if self.estimate else {}
        texts = (
            f"{row.likely.number} {row.likely.unit}".strip()
            for key in ("time", "energy")
            if (row := rows.get(key)) is not None and row.likely is not None
        )
        return f"About {' and '.join(texts)}"

    @property
    def has_work_options(self) -> bool:
        """Whether a field of the closed part of the form is used."""
        form = self.form
        names = ("steps", "early", "project")
        return any(
            form[name].errors or form[name].value() not in (None, "", "off") for name in names
        )

    @property
    def query(self) -> str:
        """Return the query of this page."""
        more = self.checkpoints.form.query if self.checkpoints else ""
        return "&".join(part for part in (self.form.query, more) if part)

    @property
    def drawn(self) -> list[LayerRow]:
        """Return the layers of the chart."""
        return drawn_rows(self.result.layers) if self.result else []


@dataclass(frozen=True)
class LabForm:
    """A form, and what it was made from."""

    form: PlannerForm
    cards: Sequence[NodeCard]
    market: Sequence[MarketSize]
    projects: Sequence[Project]

    def job_input(self) -> JobInput:
        """Return the training of a valid form."""
        return job_input(self.form, self.cards, self.projects)


def planner_form(lab: Lab, params: Mapping[str, Any]) -> LabForm:
    """Return the form of a lab. Raises NotFound for a run of another lab.

    An address with a run only gets the fields that the run knows.
    """
    cards, market = node_cards(lab), market_sizes()
    projects = list(Project.objects.filter(lab=lab).order_by("name"))
    like = _like(lab, str(params.get("run", "")), cards)
    if like is not None and not any(
        name in params for name in PlannerForm.base_fields if name != "run"
    ):
        params = {**like.fields, "run": params["run"]}
    form = PlannerForm(params, cards, market, projects=projects, like=like)
    return LabForm(form, cards, market, projects)


def planner_page(lab: Lab, params: Mapping[str, Any]) -> PlannerPage:
    """Return the page of a form that is sent with GET. The number of queries is constant. Raises
    NotFound for a run of another lab.
    """
    now, made, runs = now_us(), planner_form(lab, params), _run_choices(lab)
    form, cards, market = made.form, made.cards, made.market
    if not (form.is_bound and form.is_valid()):
        return PlannerPage(form, runs)
    result = planner_result(form, cards, market) if form.costs else None
    job = made.job_input()
    evidence = read_evidence(lab, job, now)
    computed, refusal = compute_or_refuse(evidence, job)
    card_bytes = result.selected.memory_bytes if result and result.selected else None
    return PlannerPage(
        form,
        runs,
        result,
        estimate_card(form, computed, refusal),
        place_table(evidence, form, computed, params.get("sort") or DEFAULT_SORT, now),
        _too_few_gpus(form, cards),
        what_if_table(evidence, form, computed, card_bytes) if result else None,
        checkpoint_card(
            lab, CheckpointForm(params), form.cleaned_data["place"], cards, computed, now
        ),
    )


def _too_few_gpus(form: PlannerForm, cards: Sequence[NodeCard]) -> str:
    place = form.cleaned_data["place"]
    card = next((each for each in cards if place_value(each) == place), None)
    if card is None or form.gpu_count <= card.gpus:
        return ""
    return f"{card.node.name} has {card.gpus} × {card.name}, fewer than the plan uses."


def _run_choices(lab: Lab) -> list[RunChoice]:
    zone = ZoneInfo(lab.time_zone)
    return [
        RunChoice(
            run.uuid,
            f"{run.name[:60]} · {day_text(started.date(), year=True)} {started:%H:%M}",
        )
        for run in newest_finished_runs(lab)
        for started in [utc(run.started_us).astimezone(zone)]
    ]


def _like(lab: Lab, text: str, cards: Sequence[NodeCard]) -> LikeRun | None:
    uuid = run_uuid(text)
    if uuid is None:
        return None
    run: Run = or_not_found(run_of(lab, uuid), "run", reverse("runs"))
    return like_run(past_training(run), cards)
