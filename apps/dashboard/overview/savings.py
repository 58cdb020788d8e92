"""What could be saved: energy of a period by kind of waste, and cleanup plans beside it."""

from dataclasses import dataclass

from django.urls import reverse

from apps.accounts.models import Lab
from apps.artifacts.choices import OPEN_PLANS
from apps.artifacts.cleanup.totals import plan_totals
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import ANY_WASTE, FigureQuery
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Projected,
    Quantity,
    cost_quantity,
    energy_and_emissions,
    estimated,
    percent_quantity,
    total,
)
from apps.dashboard.formatting import size
from apps.dashboard.periods import Period
from apps.dashboard.runs.duplicate_filters import EVERY_STATE

# Kind: title, text, button, page.
_KINDS = {
    "duplicate": (
        "Duplicate runs",
        "They repeated work that the lab had done before.",
        "Review duplicates",
        "duplicates",
    ),
    "failed": (
        "Failed runs",
        "They ended with an error. Duplicates are not counted again.",
        "Show failed runs",
        "runs",
    ),
    "idle": (
        "Idle devices",
        "They were on, and nobody used them. A device that waits for its next job is idle too.",
        "Show nodes",
        "nodes",
    ),
}


@dataclass(frozen=True)
class Saving:
    """Energy of one kind of waste, and where somebody can act."""

    kind: str
    title: str
    text: str
    action: str
    href: str
    figures: EnergyAndEmissions
    cost: Quantity | None


@dataclass(frozen=True)
class CleanupSaving:
    """An open cleanup plan: bytes that it frees, and a year of their storage. None: unknown."""

    title: str
    size: str
    href: str
    energy: Projected | None
    emission: Projected | None


@dataclass(frozen=True)
class Savings:
    """``kinds`` by energy, largest first; ``together`` is their sum, None if there is none. Cleanup
    plans are a yearly estimate and in no sum.
    """

    kinds: list[Saving]
    together: EnergyAndEmissions | None
    cost: Quantity | None
    share: Quantity | None
    plans: list[CleanupSaving]


def savings_of(lab: Lab, query: FigureQuery, whole: Figure, period: Period) -> Savings:
    """Return what could be saved. ``whole``: all energy of the query. One query, and those of the
    cleanup plans.
    """
    any_waste = query.replace(waste=ANY_WASTE)
    wasted = {waste: part for (waste,), part in figures_by(lab, any_waste, ["waste"]).items()}
    kinds = [
        Saving(
            kind,
            title,
            text,
            action,
            _address(page, kind, period),
            energy_and_emissions(query.replace(waste=kind), wasted[kind]),
            cost_quantity(lab, query.replace(waste=kind), wasted[kind]),
        )
        for kind, (title, text, action, page) in _KINDS.items()
        if kind in wasted and wasted[kind].energy_mj
    ]
    kinds.sort(key=lambda saving: -saving.figures.energy.value)
    everything = total(wasted[saving.kind] for saving in kinds)
    return Savings(
        kinds,
        energy_and_emissions(any_waste, everything) if kinds else None,
        cost_quantity(lab, any_waste, everything) if kinds else None,
        percent_quantity(any_waste, everything.energy_mj, whole.energy_mj) if kinds else None,
        cleanup_savings(lab),
    )


def _address(page: str, kind: str, period: Period) -> str:
    if kind == "duplicate":
        return f"{reverse(page)}?state={EVERY_STATE}&{period.query}"
    if kind == "idle":
        return f"{reverse(page)}?{period.query}"
    return f"{reverse(page)}?state=failed&{period.query}&clip=1"


_MAX_PLANS = 2


def cleanup_savings(lab: Lab) -> list[CleanupSaving]:
    """Return the largest open cleanup plans. Up to seven queries per plan."""
    plans = lab.cleanup_plans.filter(state__in=OPEN_PLANS).select_related("node")
    found = []
    for plan in plans.order_by("-created_us")[:_MAX_PLANS]:
        totals = plan_totals(plan)
        if not totals.bytes:
            continue
        found.append(
            CleanupSaving(
                f"Cleanup plan for {plan.node.hostname}",
                size(totals.bytes),
                reverse("cleanup-plan", args=[plan.uuid]),
                None if totals.storage_mj is None else estimated(totals.storage_mj),
                None
                if totals.storage_ug is None
                else estimated(totals.storage_ug, metric="emission_ug"),
            )
        )
    return found
