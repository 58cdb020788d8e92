"""A plan that is like a past run: the form is filled with what the run knows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

from apps.dashboard.planner.place_choices import ANY_GPU, node_value, place_value
from apps.fleet.models import Node
from apps.planner.cards import NodeCard
from apps.planner.choices import Precision, Trainable
from apps.planner.past_run_facts import PastTraining
from apps.planner.presets import presets

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TRAINABLE = {Trainable.FULL: "full", Trainable.ADAPTERS: "lora", Trainable.HEAD: "head"}
_PRECISION = {Precision.FP32: "fp32", Precision.MIXED: "mixed"}
# Fields that a run can state, with their names in a sentence.
_STATED = {
    "model": "model", "samples": "dataset size", "total": "epochs or steps", "batch": "batch size",
    "precision": "precision", "optimiser": "optimiser", "place": "node and GPU",
    "gpus": "number of GPUs", "project": "project",
}  # fmt: skip
_OF_RUN = {"run", "place", "project"}  # not taken from an estimate
Fields = dict[str, str]


@dataclass(frozen=True)
class LikeRun:
    """The run of a plan. ``fields``: values of the form that it knows. ``unknown``: names of what
    it does not state. ``node``: of a run without a GPU.
    """

    training: PastTraining
    fields: Fields
    unknown: Sequence[str]
    node: Node | None

    @property
    def is_model_named(self) -> bool:
        """Whether the model is a preset by its name in the parameters only."""
        return self.training.stored is None and "preset" in self.fields


def run_uuid(text: str) -> UUID | None:
    """Return the UUID of a run in a text, such as the address of its page."""
    found = _UUID.search(text)
    return UUID(found[0]) if found else None


def like_run(training: PastTraining, cards: Sequence[NodeCard]) -> LikeRun:
    """Return what a run fills in. Unknown text fields are empty."""
    run, work = training.run, training.work
    stored = _stored_fields(training.stored) if training.stored else {}
    fields = {"source": "none", **_named_model(training.named.model), **stored}
    node, place = _place(training, cards)
    if place is not None:
        fields["place"] = place
    counts = {
        "samples": work.samples,
        "epochs": None if work.steps else work.epochs,
        "steps": work.steps,
        "batch": work.batch,
    }
    if training.use and training.use.gpus:
        fields["gpus"] = str(training.use.gpus)
    stated_total = fields.get("epochs") or fields.get("steps")
    for name, count in counts.items():
        if count is not None and not (name in {"epochs", "steps"} and stated_total):
            fields.setdefault(name, str(count))
    for name in ("optimiser", "precision"):
        if value := getattr(training.named, name):
            fields.setdefault(name, value)
    if run.charged_project is not None:
        fields["project"] = run.charged_project.slug
    known = {
        "model": fields["source"] != "none",
        "total": "epochs" in fields or "steps" in fields,
        "gpus": "gpus" in fields or node is not None,
    }
    unknown = [text for name, text in _STATED.items() if not known.get(name, name in fields)]
    empty = dict.fromkeys(("samples", "epochs", "steps", "batch", "gpus", "project"), "")
    return LikeRun(training, {**empty, "place": ANY_GPU, **fields}, unknown, node)


def _stored_fields(stored: dict[str, Any]) -> Fields:
    """Return the fields of the estimate of a run: those of the page, else of its input."""
    if query := stored.get("query"):
        fields = dict(parse_qsl(query))
        return {name: text for name, text in fields.items() if name not in _OF_RUN}
    training, work = stored["training"], stored["work"]
    fields = {
        **_stored_model(stored.get("model")),
        "trainable": _TRAINABLE[Trainable(training["trainable"])],
        "precision": _PRECISION[Precision(training["precision"])],
        "checkpointing": "on" if training["checkpointing"] else "off",
        "early": "on" if work["stops_early"] else "off",
    }
    names = ("samples", "steps", "batch") if work["steps"] else ("samples", "epochs", "batch")
    fields |= {name: str(work[name]) for name in names if work[name]}
    if training["gpus"]:
        fields["gpus"] = str(training["gpus"])
    return fields


def _stored_model(model: dict[str, Any] | None) -> Fields:
    """Return a preset with the same costs, else the numbers if all of them were stored."""
    if model is None:
        return {}
    preset = presets().get(model["name"])
    if preset and (preset.parameters, preset.macs) == (model["parameters"], model["macs"]):
        return {"source": "preset", "preset": preset.name}
    if not model.get("layer_outputs") or not model["parameters"]:
        return {}
    names = ("parameters", "macs", "layer_outputs")
    return {
        "source": "numbers", "input": model["input"], **{name: str(model[name]) for name in names}
    }  # fmt: skip


def _named_model(name: str) -> Fields:
    """Return the preset of this name, without hyphens, blanks and case."""
    wanted = _plain(name)
    found = next((preset for preset in presets() if wanted and _plain(preset) == wanted), None)
    return {"source": "preset", "preset": found} if found else {}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _place(training: PastTraining, cards: Sequence[NodeCard]) -> tuple[Node | None, str | None]:
    """Return the node of a run without a GPU, and the value of the place; None is unknown."""
    node, use = training.run.node, training.use
    if node is None or use is None:
        return None, None
    if not use.cards:
        return node, node_value(node)
    values = [
        place_value(card) for card in cards if card.node.pk == node.pk and {card.key} == use.cards
    ]
    return None, values[0] if values else None
