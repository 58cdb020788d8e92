"""Emissions of the treatment of retired hardware, by how it left the lab. Pure."""

from dataclasses import dataclass

from apps.assets.choices import EndOfLife


@dataclass(frozen=True)
class Treatment:
    """A published factor, µg CO2e per 100 g of mass, so that it is an integer."""

    ug_per_100_g: int
    source: str


# The factor covers collection and transport to the treatment, as category 5 requires. It was
# checked against transcriptions of the workbook, not against the workbook (docs/assets.md).
WEEE_RECYCLING = Treatment(
    468_568,
    "UK government conversion factors for company reporting 2025 (DESNZ), waste disposal, "
    "WEEE - mixed, open-loop: 4.68568 kg CO2e per tonne. Open Government Licence v3.0",
)
# No source publishes a figure for the other ends of life: reuse is no waste treatment, and the
# treatment of a lost or stolen asset is unknown.
TREATMENTS = {EndOfLife.RECYCLED: WEEE_RECYCLING}


def treatment_of(end_of_life: str) -> Treatment | None:
    """Return the default treatment; None: no figure."""
    return TREATMENTS.get(EndOfLife(end_of_life)) if end_of_life else None


def treatment_ug(treatment: Treatment, mass_g: int) -> int:
    """Return the emissions of ``mass_g``, half up to whole µg."""
    return (treatment.ug_per_100_g * mass_g + 50) // 100


def default_emissions(end_of_life: str, mass_g: int | None) -> tuple[int | None, str]:
    """Return the emissions by the default factor with its source; None without factor or mass."""
    treatment = treatment_of(end_of_life)
    if treatment is None or mass_g is None:
        return None, ""
    return treatment_ug(treatment, mass_g), treatment.source
