"""Storage energy and break-even as texts and quantities of pages."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from apps.artifacts.choices import CopyState, Medium
from apps.artifacts.storage_model import StorageCost, StorageEnergy, break_even
from apps.catalog.storage_power import MEDIUM_POWER
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import Unit, format_value, grouped, significant, size, unit_for


@dataclass(frozen=True)
class StorageEnergyText:
    """``energy`` is None if unknown. ``excluded``: texts of what the sum does not contain."""

    energy: Projected | None
    range_text: str
    excluded: list[str]


@dataclass(frozen=True)
class MediumRow:
    """Power of a medium, Wh per TB-hour, with its source."""

    name: str
    wh: str
    range: str
    source: str


def media_rows() -> list[MediumRow]:
    """Return the power of each medium."""

    def format_wh(uwh: int) -> str:
        return significant(Decimal(uwh) / 10**6)

    return [
        MediumRow(
            str(Medium(medium).label),
            format_wh(it.uwh),
            f"{format_wh(it.low_uwh)} – {format_wh(it.high_uwh)}",
            it.source,
        )
        for medium, it in MEDIUM_POWER.items()
    ]


_STATE_TEXTS = {
    CopyState.TRASHED: "in the trash", CopyState.CORRUPT: "corrupt", CopyState.MISSING: "missing",
    CopyState.DELETED: "deleted",
}  # fmt: skip


def absence_text(states: Sequence[str]) -> str:
    """Return the text for storage energy where no copy is present, by the states of the copies."""
    if not states:
        return "unknown: no copy registered"
    counts = Counter(states)
    if set(counts) == {CopyState.DELETED}:
        return f"none: {'copy' if len(states) == 1 else 'all copies'} deleted"
    many = {state: f"{grouped(counts[state])} " if len(states) > 1 else "" for state in counts}
    parts = [many[state] + text for state, text in _STATE_TEXTS.items() if state in counts]
    return f"not included: {', '.join(parts)}"


def storage_energy_text(it: StorageEnergy) -> StorageEnergyText:
    """Return the storage energy of a year for a page."""
    excluded = []
    if it.unknown_bytes:
        excluded.append(f"{size(it.unknown_bytes)} on unknown medium, not included")
    if it.without_pue_bytes:
        excluded.append(
            f"{size(it.without_pue_bytes)} without a PUE, included without building overhead"
        )
    if not it.is_known:
        return StorageEnergyText(None, "", excluded)
    unit = unit_for("energy_mj", [it.high_mj])
    return StorageEnergyText(
        estimated(it.energy_mj, unit=unit, at_least=bool(it.unknown_bytes or it.without_pue_bytes)),
        f"{format_value(it.low_mj, unit)}–{format_value(it.high_mj, unit)} {unit.name}",
        excluded,
    )


def energy_quantity(it: StorageCost, unit: Unit | None = None) -> Projected | None:
    """Return the energy of a year, None if unknown."""
    lacking = bool(it.energy.unknown_bytes or it.energy.without_pue_bytes)
    return (
        estimated(it.energy.energy_mj, unit=unit, at_least=lacking) if it.energy.is_known else None
    )


def emission_quantity(it: StorageCost, unit: Unit | None = None) -> Projected | None:
    """Return the emissions of a year, None if unknown."""
    if not it.is_emission_known:
        return None
    return estimated(it.emission_ug, "emission_ug", unit, at_least=not it.is_emission_complete)


def break_even_text(year: StorageEnergy, retrain_mj: int) -> str:
    """Return the break-even reuse probability as text, '' if retraining takes no measured
    energy.
    """
    if year.unknown_bytes:
        return "Break-even reuse probability: unknown, because the medium of a copy is unknown."
    chance = break_even(year.energy_mj, retrain_mj)
    return "" if chance is None else break_even_sentence(chance)


def break_even_sentence(chance: Fraction) -> str:
    """Return the break-even reuse probability as a sentence."""
    if chance > 1:
        return (
            f"Storing it for a year takes {_plain(chance)} times the energy of retraining. Keep "
            "it only for other reasons."
        )
    if chance == 0:
        return "Storing it takes no energy, so it always pays off."
    if chance < Fraction(1, 1000):
        return "Storing it pays off even if the chance of needing it again is only 0.1 % a year."
    return (
        f"Storing it pays off if the chance of needing it again is above {_plain(chance * 100)} "
        "% a year."
    )


def break_even_cell(chance: Fraction) -> str:
    """Return the break-even reuse probability for a table cell."""
    if chance > 1:
        return f"never: {_plain(chance)} × retraining"
    if chance == 0:
        return "always"
    return (
        "below 0.1 % a year" if chance < Fraction(1, 1000) else f"{_plain(chance * 100)} % a year"
    )


def _plain(value: Fraction) -> str:
    """Return three significant digits without trailing zeros."""
    text = significant(Decimal(value.numerator) / value.denominator)
    return text.rstrip("0").rstrip(".") if "." in text else text
