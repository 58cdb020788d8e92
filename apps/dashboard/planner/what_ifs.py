"""Table "What if" of the page Planner: other ways of training, as differences to the plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

from apps.artifacts.choices import CopyState
from apps.core.units import MINUS
from apps.dashboard.addresses import address
from apps.dashboard.figures import Projected, signed
from apps.dashboard.formatting import Unit, duration, unit_for
from apps.dashboard.planner.forms import LAYERS, PlannerForm
from apps.dashboard.planner.places import FITS
from apps.dashboard.planner.range_cells import RangeCell, range_cell
from apps.dashboard.planner.sizes import memory_text
from apps.planner.evidence import Evidence
from apps.planner.services import ComputedEstimate
from apps.planner.site_conditions import SiteConditions
from apps.planner.what_ifs.alternatives import Plan
from apps.planner.what_ifs.selectors import WhatIf, WhatIfs, what_ifs

# Figures in order: key, label, field of WhatIf, metric of its integers ('': a time).
COLUMNS = (
    ("time", "Time", "time_us", ""),
    ("energy", "Energy", "energy_mj", "energy_mj"),
    ("emission", "Emissions", "emission_ug", "emission_ug"),
    ("cost", "Cost", "cost_ucurrency", "cost_ucurrency"),
)
_LABELS = {
    "adapt": "Adapt a stored model",
    "head": "New head on a frozen body",
    "unfreezing": "Body frozen for {frozen} of {epochs} epochs",
    "early_stop": "Early stop",
    "half_epochs": "Half of the training",
    "mixed_precision": "Mixed precision",
    "momentum": "SGD with momentum",
    "checkpointing": "Gradient checkpointing",
    "half_resolution": "Half resolution: {input}",
    "smaller_model": "Smaller model: {model}",
    "distillation": "Distillation into {model}",
}
RISKS = {
    "adapt": "Its data or its licence may not suit the task.",
    "head": "Data of another kind than those of the body reach a lower quality.",
    "unfreezing": "The body may need more epochs to adapt.",
    "early_stop": "This training may still improve after that point.",
    "half_epochs": "The training may not have converged.",
    "mixed_precision": "Small gradients can become 0, and the loss can become NaN.",
    "momentum": "It can need another learning rate and more epochs.",
    "checkpointing": "The result is the same. Each step computes one more forward pass.",
    "half_resolution": "Small objects and details are lost.",
    "smaller_model": "A smaller model can reach a lower quality.",
    "distillation": "The teacher has to be trained before, which is not counted here.",
}


@dataclass(frozen=True)
class WhatIfRow:
    """An alternative. ``detail``: what it rests on. ``missing``: why no figure is known, ''
    otherwise.
    """

    row: WhatIf
    label: str
    detail: str
    href: str
    risk: str
    memory: str
    fit: str
    cells: Sequence[RangeCell]

    @property
    def key(self) -> str:
        """Return the name of the alternative."""
        return self.row.key

    @property
    def missing(self) -> str:
        """Return why no figure is known, '' otherwise."""
        return self.row.missing


@dataclass(frozen=True)
class WhatIfTable:
    """The alternatives that apply to the form."""

    rows: Sequence[WhatIfRow]


def what_if_table(
    evidence: Evidence,
    form: PlannerForm,
    computed: ComputedEstimate | None,
    card_bytes: int | None,
) -> WhatIfTable | None:
    """Return the alternatives to a valid form with its estimate, None without one or without a
    model.
    """
    if computed is None or form.costs is None or form.training is None:
        return None
    data = form.cleaned_data
    text = data["layers"] if data["source"] == LAYERS else ""
    plan = Plan(computed.job, form.training, card_bytes, text)
    found = what_ifs(evidence, plan, computed)
    conditions = computed.conditions
    currency = conditions.price.currency if conditions.price else ""
    units = {
        key: unit_for(
            metric,
            [abs(each.likely) for row in found.rows if (each := getattr(row, field))],
            currency=currency,
        )
        for key, _, field, metric in COLUMNS
        if metric
    }
    rows = [
        WhatIfRow(
            row=row,
            label=_LABELS[row.key].format(**row.facts),
            detail=_detail(row),
            href=_href(found) if row.key == "adapt" else "",
            risk=RISKS[row.key],
            memory=memory_text(row.memory.likely) if row.memory else "",
            fit=FITS[row.fit] if row.fit else "",
            cells=[] if row.missing else _cells(row, units, conditions),
        )
        for row in found.rows
    ]
    return WhatIfTable(rows)


def _detail(row: WhatIf) -> str:
    facts: Mapping[str, int | str] = row.facts
    name = "steps" if "steps" in facts else "epochs"
    if row.key == "adapt":
        models = "1 model" if facts["models"] == 1 else f"{facts['models']} models"
        if not facts["runs"]:
            return models
        runs = "1 adaptation" if facts["runs"] == 1 else f"{facts['runs']} adaptations"
        return f"{models}, {runs} of {facts['basis']} measured"
    if row.key == "early_stop" and "curves" in facts:
        curves = "1 past curve" if facts["curves"] == 1 else f"{facts['curves']} past curves"
        return f"After {facts[name]} of {facts['of']} {name}, by {curves}"
    if row.key == "half_epochs":
        return f"{facts[name]} of {facts['of']} {name}"
    return ""


def _href(found: WhatIfs) -> str:
    """Return the address of the models that could be adapted."""
    reuse = found.reuse
    assert reuse is not None, "the row exists with models only"
    if not reuse.architecture:
        return address("artifact", reuse.models[0].artifact.digest)
    query = {"architecture": reuse.architecture, "copies": CopyState.PRESENT.value}
    return f"{address('artifacts')}?{urlencode(query)}"


def _cells(row: WhatIf, units: Mapping[str, Unit], conditions: SiteConditions) -> list[RangeCell]:
    missing = {
        "emission": conditions.factor_missing,
        "cost": conditions.price_missing,
    }
    return [
        range_cell(
            key,
            label,
            field.rsplit("_", 1)[1],
            getattr(row, field),
            partial(_signed, metric=metric, unit=units.get(key)),
            missing.get(key) or "Unknown.",
        )
        for key, label, field, metric in COLUMNS
    ]


def _signed(value: int, metric: str, unit: Unit | None) -> Projected:
    if metric:
        return signed(value, metric, unit, currency=unit.name if unit and unit.is_money else "")
    sign = MINUS if value < 0 else "+" if value > 0 else ""
    return Projected(f"{sign}{duration(abs(value))}", "", f"{value} µs", "", at_least=False)


Line = tuple[str, str, int | None, str, str, str, int | None]


def what_if_lines(table: WhatIfTable | None) -> Iterator[Line]:
    """Yield the differences for the CSV of the result."""
    for row in table.rows if table else []:
        fit = row.row.fit
        memory = row.row.memory
        for end in ("low", "likely", "high"):
            for cell in row.cells:
                value = getattr(cell.range, end) if cell.range else None
                yield "what_if", f"{row.key}: {cell.key}_{end}", value, cell.unit, fit, "", None
            count = getattr(memory, end) if memory else None
            yield "what_if", f"{row.key}: memory_{end}", count, "byte", fit, "", None
