"""What an estimate rests on, as a sentence."""

from collections.abc import Mapping
from typing import Any

from apps.core.units import grouped
from apps.dashboard.formatting import duration
from apps.planner.choices import Basis


def basis_facts(basis: str, facts: Mapping[str, Any]) -> str:
    """Return the facts of an estimate in sentences, '' without a basis."""
    text = _basis_text(basis, facts)
    if text and any(key.startswith("widening_") for key in facts):
        text += " Its ranges are as wide as the outcomes of earlier estimates need."
    return text


def _basis_text(basis: str, facts: Mapping[str, Any]) -> str:
    match basis:
        case Basis.OWN_RUNS:
            same, measured = facts.get("same_recipe", 0), facts.get("measured", 0)
            text = f"{_counted(facts.get('runs', 0), 'run')} of the family"
            text += (
                f", {grouped(same)} of the same recipe, {grouped(measured)} with measured energy."
            )
            if not facts.get("is_total_known", True):
                text += " The total work is unknown: they count as they are."
            return text
        case Basis.PROBE:
            steps = grouped(facts.get("measured_steps", 0))
            return (
                f"{steps} of {_counted(facts.get('steps', 0), 'step')}, measured in"
                f" {duration(facts.get('measured_us', 0))}."
            )
        case Basis.OPERATIONS:
            return (
                f"{_counted(facts.get('runs', 0), 'run')} on this card,"
                f" {grouped(facts.get('same_model', 0))} of the same model."
            )
        case Basis.CATALOGUE:
            return f"Rated figures of {_counted(facts.get('gpus', 1), 'GPU')}."
    return ""


def _counted(number: int, noun: str) -> str:
    return f"{grouped(number)} {noun}{'' if number == 1 else 's'}"
