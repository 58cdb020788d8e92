"""What keeping takes, in words: energy of a year with its range, what is not in it, and when keeping pays."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from apps.artifacts.choices import CopyState
from apps.artifacts.storage_model import MEDIUM_POWER, StorageCost, StorageEnergy, break_even
from apps.dashboard.figures import WouldBe, estimated
from apps.dashboard.formatting import Unit, grouped, shown, significant, size, unit_for


@dataclass(frozen=True)
class StorageEnergyText:
    """``energy`` is None where nothing of it is known. ``left_out``: what the sum does not hold, in words."""

    energy: WouldBe | None
    range_text: str
    excluded: list[str]


@dataclass(frozen=True)
class MediumRow:
    """What a medium draws, Wh per TB-hour, and who says so."""

    name: str
    wh: str
    range: str
    source: str


def media_rows() -> list[MediumRow]:
    """Return what each medium draws."""

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
    """Return what is said of a year of keeping where no copy is there, by their states."""
    if not states:
        return "not known: where it lies was not told"
    counts = Counter(states)
    if set(counts) == {CopyState.DELETED}:
        return f"nothing: its {'copy is' if len(states) == 1 else 'copies are'} deleted"
    many = {state: f"{grouped(counts[state])} " if len(states) > 1 else "" for state in counts}
    return f"not counted: {', '.join(f'{many[state]}{words}' for state, words in _STATE_TEXTS.items() if state in counts)}"


def storage_energy_text(it: StorageEnergy) -> StorageEnergyText:
    """Return the energy of a year of keeping as a page shows it."""
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
        f"{shown(it.low_mj, unit)}–{shown(it.high_mj, unit)} {unit.name}",
        excluded,
    )


def energy_quantity(it: StorageCost, unit: Unit | None = None) -> WouldBe | None:
    """Return the energy of a year, None where nothing of it is known."""
    lacking = bool(it.energy.unknown_bytes or it.energy.without_pue_bytes)
    return estimated(it.energy.energy_mj, unit=unit, at_least=lacking) if it.energy.is_known else None


def emission_quantity(it: StorageCost, unit: Unit | None = None) -> WouldBe | None:
    """Return the carbon of a year, None where nothing of it is known."""
    if not it.is_emission_known:
        return None
    return estimated(it.emission_ug, "emission_ug", unit, at_least=not it.is_emission_complete)


def break_even_text(year: StorageEnergy, retrain_mj: int) -> str:
    """Return from which chance of reuse on keeping pays, '' where making it again takes nothing that is known of."""
    if year.unknown_bytes:
        return "From which chance of reuse on keeping pays is not known, as the medium of a copy is not."
    chance = break_even(year.energy_mj, retrain_mj)
    return "" if chance is None else break_even_sentence(chance)


def break_even_sentence(chance: Fraction) -> str:
    """Return the chance of reuse within a year above which keeping takes less than making again, in a sentence."""
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
    """Return the same for a cell of a table."""
    if chance > 1:
        return f"never: {_plain(chance)} × making it"
    if chance == 0:
        return "always"
    return "from below 0.1 % a year" if chance < Fraction(1, 1000) else f"from {_plain(chance * 100)} % a year"


def _plain(value: Fraction) -> str:
    """Return three significant digits without zeros at the end."""
    text = significant(Decimal(value.numerator) / value.denominator)
    return text.rstrip("0").rstrip(".") if "." in text else text
