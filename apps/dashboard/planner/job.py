"""The planned training of the form, as estimates and places need it."""

from collections.abc import Sequence

from apps.dashboard.planner.forms import PlannerForm, place_value
from apps.dashboard.planner.result import TRAINABLE
from apps.planner.cards import NodeCard
from apps.planner.choices import Precision
from apps.planner.formulas.work import Training, Work
from apps.planner.job_input import JobInput, Place

_PRECISIONS = {"fp32": Precision.FP32, "mixed": Precision.MIXED, "bf16": Precision.MIXED}


def work_training(form: PlannerForm) -> Training:
    """Return how the model of a valid form is trained, on one GPU."""
    data = form.cleaned_data
    return Training(
        trainable=TRAINABLE[data["trainable"]],
        precision=_PRECISIONS[data["precision"]],
        checkpointing=data["checkpointing"] == "on",
        gpus=1,
    )


def job_input(form: PlannerForm, cards: Sequence[NodeCard]) -> JobInput:
    """Return the training of a valid form."""
    data = form.cleaned_data
    own = next((card for card in cards if place_value(card) == data["place"]), None)
    if own is not None:
        place = Place(node=own.node, card=own.name)
    else:  # a memory size has no name; no card is known to be none
        place = Place(card=None if data["place"] else "")
    return JobInput(
        model=form.costs,
        training=work_training(form),
        work=Work(samples=data["samples"], epochs=data["epochs"], batch=data["batch"]),
        place=place,
    )
