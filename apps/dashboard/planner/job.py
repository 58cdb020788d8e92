"""The planned training of the form, as estimates and places need it."""

from collections.abc import Sequence

from apps.accounts.models import Project
from apps.dashboard.planner.forms import PlannerForm
from apps.dashboard.planner.place_choices import node_value, place_value
from apps.dashboard.planner.result import TRAINABLE
from apps.planner.cards import NodeCard
from apps.planner.choices import Precision
from apps.planner.formulas.work import Training, Work
from apps.planner.job_input import JobInput, Place

_PRECISIONS = {"fp32": Precision.FP32, "mixed": Precision.MIXED, "bf16": Precision.MIXED}


def work_training(form: PlannerForm) -> Training:
    """Return how the model of a valid form is trained. Unknown numbers of GPUs stay unknown."""
    data = form.cleaned_data
    return Training(
        trainable=TRAINABLE[data["trainable"]],
        precision=_PRECISIONS[data["precision"]],
        checkpointing=data["checkpointing"] == "on",
        gpus=data["gpus"],
    )


def stated_work(form: PlannerForm) -> Work:
    """Return the work that a valid form states."""
    data = form.cleaned_data
    return Work(
        samples=data["samples"],
        epochs=data["epochs"],
        steps=data["steps"],
        batch=data["batch"],
        stops_early=data["early"] == "on",
    )


def job_input(
    form: PlannerForm, cards: Sequence[NodeCard], projects: Sequence[Project]
) -> JobInput:
    """Return the training of a valid form."""
    data = form.cleaned_data
    return JobInput(
        model=form.costs,
        training=work_training(form),
        work=stated_work(form),
        place=_place(form, cards),
        project=next((each for each in projects if each.slug == data["project"]), None),
        like_run=form.like.training.run if form.like else None,
        query=form.query,
    )


def _place(form: PlannerForm, cards: Sequence[NodeCard]) -> Place:
    value = form.cleaned_data["place"]
    own = next((card for card in cards if place_value(card) == value), None)
    if own is not None:
        return Place(node=own.node, card=own.name)
    node = form.like.node if form.like else None
    if node is not None and node_value(node) == value:
        return Place(node=node, card="")
    # A memory size and an unknown card have no name; no card is known to be none.
    return Place(card=None if value else "")
