"""The input of an estimate, and its form in the database."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from apps.accounts.models import Project
from apps.fleet.models import Node, Site
from apps.planner.choices import Precision, Trainable
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.time_and_energy import Probe
from apps.planner.formulas.work import Training, Work
from apps.runs.fingerprint_parsing import FingerprintIn
from apps.runs.models import Run


@dataclass(frozen=True)
class Place:
    """Where a run is planned. ``card``: name of the GPU, '' without one, None unknown."""

    node: Node | None = None
    site: Site | None = None
    card: str | None = None


@dataclass(frozen=True)
class JobInput:
    """A planned training. ``like_run``: a past run that it repeats in other circumstances; its
    fingerprint is used without an own one. ``query``: of the page Planner that shows it.
    """

    model: ModelCosts | None = None
    training: Training = field(default_factory=Training)
    work: Work = field(default_factory=Work)
    place: Place = field(default_factory=Place)
    project: Project | None = None
    fingerprint: FingerprintIn | None = None
    like_run: Run | None = None
    probe: Probe | None = None
    query: str = ""


@dataclass(frozen=True)
class StoredCosts:
    """The model costs that an estimate stores."""

    name: str
    input: str
    parameters: int
    macs: int


def to_json(job: JobInput, work: Work) -> dict[str, Any]:
    """Return the input as an estimate stores it, with the work that was used."""
    model = job.model
    return {
        "model": None
        if model is None
        else {
            "name": model.name,
            "input": model.input,
            "parameters": model.parameters,
            "macs": model.macs,
            "layer_outputs": model.layer_outputs,
            "source": model.source,
        },
        "training": asdict(job.training),
        "work": asdict(work),
        "place": {
            "node": str(job.place.node.uuid) if job.place.node else None,
            "site": job.place.site.pk if job.place.site else None,
            "card": job.place.card,
        },
        "like_run": str(job.like_run.uuid) if job.like_run else None,
        "probe": None if job.probe is None else asdict(job.probe),
        "query": job.query,
    }


def costs_from(stored: Mapping[str, Any]) -> StoredCosts | None:
    """Return the model costs of a stored input, or None."""
    model = stored.get("model")
    if model is None:
        return None
    return StoredCosts(model["name"], model["input"], model["parameters"], model["macs"])


def training_from(stored: Mapping[str, Any]) -> Training:
    """Return the training of a stored input."""
    training = stored["training"]
    return Training(
        Trainable(training["trainable"]),
        Precision(training["precision"]),
        training["checkpointing"],
        training["gpus"],
    )


def work_from(stored: Mapping[str, Any]) -> Work:
    """Return the work of a stored input."""
    return Work(**stored["work"])
