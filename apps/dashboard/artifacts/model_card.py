"""Model card for the Hugging Face Hub: a YAML head with ``co2_eq_emissions``, and a Markdown page.

Unknown values are left out of the head and named in the text. Reported texts become one line: the
YAML writer and the Markdown escape prevent markup.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml

from apps.accounts.models import Lab
from apps.artifacts.choices import Kind, LineageRole
from apps.artifacts.models import Artifact, LineageEdge
from apps.artifacts.selectors import load_lineage
from apps.carbon.figures.energy import Figure, factors_used, figures_by
from apps.carbon.figures.figure_query import MOST_RUNS
from apps.core.units import UG_PER_G
from apps.dashboard.artifacts.artifact_runs import first_metrics
from apps.dashboard.artifacts.model_footprint import (
    Spans,
    joint_query,
    lineage_footprint,
    load_spans,
)
from apps.dashboard.figures import quantity, total
from apps.dashboard.formatting import grouped, size
from apps.fleet.models import Device
from apps.runs.models import Fingerprint, Run

# https://huggingface.co/docs/hub/repositories-licenses: identifiers of the Hub; anything else is
# "other".
_LICENCES = frozenset({
    "apache-2.0", "mit", "openrail", "bigscience-openrail-m", "creativeml-openrail-m",
    "bigcode-openrail-m", "afl-3.0", "artistic-2.0", "bsl-1.0", "bsd", "bsd-2-clause",
    "bsd-3-clause", "bsd-3-clause-clear", "c-uda", "cc", "cc0-1.0", "cc-by-2.0", "cc-by-2.5",
    "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0",
    "cc-by-nc-4.0", "cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0",
    "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cdla-sharing-1.0", "cdla-permissive-1.0",
    "cdla-permissive-2.0", "wtfpl", "ecl-2.0", "epl-1.0", "epl-2.0", "etalab-2.0", "eupl-1.1",
    "agpl-3.0", "gfdl", "gpl", "gpl-2.0", "gpl-3.0", "lgpl", "lgpl-2.1", "lgpl-3.0", "isc",
    "lppl-1.3c", "ms-pl", "mpl-2.0", "odc-by", "odbl", "openrail++", "osl-3.0", "postgresql",
    "ofl-1.1", "ncsa", "unlicense", "zlib", "pddl",
})  # fmt: skip
_MARKUP = re.compile(r"([\\`*_\[\]|~#])")


@dataclass(frozen=True)
class _Training:
    """The runs that produced an artifact, their figures and inputs."""

    runs: list[Run]
    measured: list[Run]
    spans: Spans
    whole: Figure
    inputs: list[LineageEdge]


def build_card(*, lab: Lab, artifact: Artifact) -> str:
    """Return the model card of an artifact."""
    training = _load_training(lab, artifact)
    metrics = _metrics(training.runs)
    head = yaml.safe_dump(
        _head(lab, artifact, training, metrics),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=10**6,
    )
    return f"---\n{head}---\n\n{_markdown(lab, artifact, training, metrics)}"


def _load_training(lab: Lab, artifact: Artifact) -> _Training:
    edges = (
        LineageEdge.objects.filter(artifact=artifact, role=LineageRole.PRODUCED)
        .select_related("run")
        .order_by("-pk")
    )
    runs = [edge.run for edge in edges[:MOST_RUNS]]
    inputs = (
        LineageEdge.objects.filter(run__in=runs)
        .exclude(role=LineageRole.PRODUCED)
        .exclude(artifact=artifact)
    )
    spans = load_spans(lab, runs)
    measured = [run for run in runs if run.uuid in spans]
    whole = total(spans[run.uuid][0] for run in measured)
    return _Training(
        runs,
        measured,
        spans,
        whole,
        list(inputs.select_related("artifact").order_by("artifact__name", "pk")[:100]),
    )


def _metrics(runs: Sequence[Run]) -> list[tuple[str, float]]:
    """Return the metrics of the latest run that produced it."""
    return list(first_metrics(runs[:1]).get(runs[0].pk, [])) if runs else []


def _head(
    lab: Lab, artifact: Artifact, training: _Training, metrics: Sequence[tuple[str, float]]
) -> dict[str, Any]:
    """Return the head, without unknown values."""
    base = _input_names(training, (LineageRole.INITIALISED_FROM, LineageRole.DISTILLED_FROM))
    head = {
        **_licence(artifact.licence),
        "tags": [_one_line(f"{name}:{value}") for name, value in sorted(artifact.tags.items())],
        "base_model": base[0] if len(base) == 1 else base,
        "datasets": [
            _one_line(edge.artifact.name)
            for edge in training.inputs
            if edge.artifact.kind == Kind.DATASET
        ],
        "metrics": [_one_line(name) for name, _ in metrics],
        "co2_eq_emissions": _emissions(lab, training),
    }
    return {name: value for name, value in head.items() if value}


def _input_names(training: _Training, roles: Sequence[str]) -> list[str]:
    return list(
        dict.fromkeys(
            _one_line(edge.artifact.name) for edge in training.inputs if edge.role in roles
        )
    )


def _licence(text: str) -> dict[str, str]:
    identifier = re.sub(r"\s+", "-", text.strip().lower())
    if not identifier:
        return {}
    return (
        {"license": identifier}
        if identifier in _LICENCES
        else {"license": "other", "license_name": _one_line(text)}
    )


def _emissions(lab: Lab, training: _Training) -> dict[str, Any]:
    """Return the emissions of training in grams; empty if nothing was measured or nothing has a
    factor.
    """
    if not training.measured or not training.whole.emission_ug:
        return {}
    query = joint_query(lab, training.measured, training.spans)
    lower = training.whole.without_factor_mj or len(training.measured) < len(training.runs)
    places = sorted(
        {factor.zone_name for factor, _, _ in factors_used(lab, query) if factor is not None}
    )
    devices = figures_by(lab, query, ["device"])
    named = Device.objects.filter(lab=lab, key__in=[key for (key,) in devices]).only("name", "kind")
    counted = Counter(_one_line(device.name) or str(device.get_kind_display()) for device in named)
    values = {
        "emissions": float(round(Decimal(training.whole.emission_ug) / UG_PER_G, 3)),
        "source": "LabCarbon: metered energy × PUE × grid factor, location-based"
        + (", a lower bound: not all of it is known" if lower else ""),
        "training_type": _training_type(training),
        "geographical_location": ", ".join(_one_line(place) for place in places),
        "hardware_used": ", ".join(
            f"{number} × {name}" for name, number in sorted(counted.items())
        ),
    }
    return {name: value for name, value in values.items() if value or name == "emissions"}


def _training_type(training: _Training) -> str:
    """Return the Hub's term for the kind of training; '' if unknown."""
    if _input_names(training, (LineageRole.INITIALISED_FROM, LineageRole.DISTILLED_FROM)):
        return "fine-tuning"
    starts = set(
        Fingerprint.objects.filter(run__in=training.runs).values_list("start_name", flat=True)
    )
    return "pre-training" if starts == {"scratch"} else ""


def _markdown(
    lab: Lab, artifact: Artifact, training: _Training, metrics: Sequence[tuple[str, float]]
) -> str:
    """Return the Markdown page."""
    lines = [f"# {_escape(artifact.name)}", ""]
    lines += [f"Note: {_escape(artifact.note)}", ""] if artifact.note.strip() else []
    lines += ["## Details", "", *(f"- {name}: {value}" for name, value in _facts(artifact)), ""]
    lines += ["## Energy and carbon", "", *_carbon_lines(lab, artifact, training), ""]
    if metrics:
        lines += ["## Evaluation", "", "| metric | last value |", "|---|---|"]
        lines += [*(f"| {_escape(name)} | {value:.6g} |" for name, value in metrics), ""]
    inputs = [
        f"- {edge.get_role_display()} {_escape(edge.artifact.name)} (`{edge.artifact.digest}`)"
        for edge in training.inputs
    ]
    lines += ["## Inputs", "", *(inputs or ["- Unknown."]), ""]
    return "\n".join(lines)


def _facts(artifact: Artifact) -> list[tuple[str, str]]:
    facts = [
        ("Kind", artifact.get_kind_display()),
        ("Size", size(artifact.bytes)),
        ("Format", _escape(artifact.format)),
        ("Licence", _escape(artifact.licence)),
        (f"SHA-256 of the {artifact.form}", f"`{artifact.digest}`"),
    ]
    extra = [
        (_escape(name), grouped(value) if type(value) is int else _escape(str(value)))
        for name, value in sorted(artifact.facts.items())
    ]
    return [(name, value) for name, value in (*facts, *extra) if value]


def _carbon_lines(lab: Lab, artifact: Artifact, training: _Training) -> list[str]:
    if not training.runs:
        return ["Unknown: no producing run was reported."]
    if not training.measured:
        return ["Unknown: the producing run was not measured. This does not mean zero emissions."]
    query = joint_query(lab, training.measured, training.spans)
    energy, emission = (
        quantity(query, training.whole).text,
        quantity(query.replace(metric="emission_ug"), training.whole).text,
    )
    lineage_graph = load_lineage(artifact)
    producers = [lineage_graph.runs[pk] for pk in lineage_graph.producing_runs]
    spans = load_spans(lab, producers)
    footprint = lineage_footprint(lab, lineage_graph, {run.pk for run in training.runs}, spans)
    whole = total(spans[run.uuid][0] for run in producers if run.uuid in spans)
    prefix = "at least " if footprint.unmeasured or footprint.is_cut else ""
    of_all = quantity(query, whole).text, quantity(query.replace(metric="emission_ug"), whole).text
    runs = (
        f"Including all upstream runs ({footprint.runs}, of which {footprint.unmeasured} not "
        "measured)"
    )
    return [f"- Training: {energy}, {emission}.", f"- {runs}: {prefix}{of_all[0]}, {of_all[1]}."]


def _one_line(text: str) -> str:
    """Return text as one line without control characters."""
    return " ".join(
        "".join(letter if letter.isprintable() else " " for letter in str(text)).split()
    )


def _escape(text: str) -> str:
    """Return text as one line that Markdown renders literally."""
    return _MARKUP.sub(
        r"\\\1", _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
