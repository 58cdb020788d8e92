"""Storage energy and break-even as texts and quantities of pages."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from apps.artifacts.choices import CopyState
from apps.artifacts.storage_model import MEDIUM_POWER, StorageCost, StorageEnergy, break_even
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
        MediumRow(str(medium.label), format_wh(it.uwh), f"{format_wh(it.low_uwh)} – {format_wh(it.high_uwh)}", it.source)
        for medium, it in MEDIUM_POWER.items()
    ]


_STATE_TEXTS = {
    CopyState.TRASHED: "in the trash until it is emptied", CopyState.CORRUPT: "corrupt", CopyState.MISSING: "missing",
    CopyState.DELETED: "deleted",
}  # fmt: skip


def absence_text(states: Sequence[str]) -> str:
    """Return the text for storage energy where no copy is present, by the states of the copies."""
    if not states:
        return "not known: where it lies was not told"
    counts = Counter(states)
    if set(counts) == {CopyState.DELETED}:
        return f"nothing: its {'copy is' if len(states) == 1 else 'copies are'} deleted"
    many = {state: f"{grouped(counts[state])} " if len(states) > 1 else "" for state in counts}
    return f"not counted: {', '.join(f'{many[state]}{words}' for state, words in _STATE_TEXTS.items() if state in counts)}"


def storage_energy_text(it: StorageEnergy) -> StorageEnergyText:
    """Return the storage energy of a year for a page."""
    excluded = []
    if it.unknown_bytes:
        excluded.append(f"{size(it.unknown_bytes)} on unknown medium: not counted")
    if it.without_pue_bytes:
        excluded.append(f"{size(it.without_pue_bytes)} where no PUE is known: counted without the building's share")
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
    return estimated(it.energy.energy_mj, unit=unit, at_least=lacking) if it.energy.is_known else None


def emission_quantity(it: StorageCost, unit: Unit | None = None) -> Projected | None:
    """Return the emissions of a year, None if unknown."""
    if not it.is_emission_known:
        return None
    return estimated(it.emission_ug, "emission_ug", unit, at_least=not it.is_emission_complete)


def break_even_text(year: StorageEnergy, retrain_mj: int) -> str:
    """Return the break-even reuse probability as text, '' if retraining takes no measured energy."""
    if year.unknown_bytes:
        return "From which chance of reuse on keeping pays is not known, as the medium of a copy is not."
    chance = break_even(year.energy_mj, retrain_mj)
    return "" if chance is None else break_even_sentence(chance)


def break_even_sentence(chance: Fraction) -> str:
    """Return the break-even reuse probability as a sentence."""
    if chance > 1:
        times = _plain(chance)
        return f"Keeping it for a year takes {times} times the energy of making it again: keep it for other reasons only."
    if chance == 0:
        return "Keeping it takes nothing that is known of: it need not be used again to pay."
    years = Fraction(1) / chance
    if years > 1000:
        return "Keeping pays if it saves making it again even once in 1 000 years: a chance below 0.1 % a year."
    in_words, percent = _plain(years), _plain(chance * 100)
    often = "a year" if in_words == "1" else f"in {in_words} years"
    return f"Keeping pays if it saves making it again at least once {often}: a chance of {percent} % a year."


def break_even_cell(chance: Fraction) -> str:
    """Return the break-even reuse probability for a table cell."""
    if chance > 1:
        return f"never: {_plain(chance)} × making it"
    if chance == 0:
        return "always"
    return "from below 0.1 % a year" if chance < Fraction(1, 1000) else f"from {_plain(chance * 100)} % a year"


def _plain(value: Fraction) -> str:
    """Return three significant digits without trailing zeros."""
    text = significant(Decimal(value.numerator) / value.denominator)
    return text.rstrip("0").rstrip(".") if "." in text else text
