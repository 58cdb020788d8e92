"""Declared activity through the ledger: the published examples come out to the integer."""

from fractions import Fraction
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.models import Lab
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery, hours_of_us
from apps.core.jobs import run_until_idle
from apps.core.units import emission_ug, facility_mj, largest_remainder
from apps.energy.models import LedgerEntry
from tests.builders import small_lab
from tests.hours import durations_by_hour

pytestmark = pytest.mark.django_db

HEADER = "name,project,from,to,device_hours,watts,kwh,zone,g_per_kwh,pue\n"
YEAR_2021 = (1_609_459_200_000_000, 1_640_995_200_000_000)
# name, row, energy kWh, facility kWh, grams, what the paper prints
EXAMPLES = [
    # Luccioni et al. 2022, Estimating the carbon footprint of BLOOM: 433 196 kWh, 24.69 t
    (
        "BLOOM",
        "1082990,400,,,57,1.0",
        Fraction(433_196),
        Fraction(433_196),
        Fraction(24_692_172),
        "24.69",
    ),
    # Touvron et al. 2023, LLaMA: 449 MWh, 173 t; 36 MWh, 14 t
    (
        "LLaMA-65B",
        "1022362,400,,,385,1.1",
        Fraction(4_089_448, 10),
        Fraction(44_983_928, 100),
        None,
        "173.19",
    ),
    (
        "LLaMA-7B",
        "82432,400,,,385,1.1",
        Fraction(329_728, 10),
        Fraction(3_627_008, 100),
        None,
        "13.96",
    ),
    # Patterson et al. 2021, GPT-3: 1 287 MWh with PUE inside, 552.1 t
    (
        "GPT-3",
        ",,1287000,,429,1.0",
        Fraction(1_287_000),
        Fraction(1_287_000),
        Fraction(552_123_000),
        "552.12",
    ),
]


def load(tmp_path: Path, *rows: str) -> str:
    path = tmp_path / "declared.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n", encoding="utf-8")
    out = StringIO()
    call_command("import_declared", path, stdout=out)
    run_until_idle(worker="test")
    return out.getvalue()


def year(lab: Lab) -> FigureQuery:
    from_hour, to_hour = hours_of_us(*YEAR_2021)
    return FigureQuery(metric="emission_ug", from_hour=from_hour, to_hour=to_hour, basis=lab.basis)


@pytest.mark.parametrize(
    ("name", "row", "kwh", "facility_kwh", "grams", "printed_t"),
    EXAMPLES,
    ids=lambda value: str(value)[:12],
)
def test_published_examples(
    tmp_path: Path,
    name: str,
    row: str,
    kwh: Fraction,
    facility_kwh: Fraction,
    grams: Fraction | None,
    printed_t: str,
) -> None:
    lab = small_lab().lab
    assert "1 accepted" in load(tmp_path, f"{name},demo,2021-01-01,2022-01-01,{row}")
    found = figure(lab, year(lab).replace(subject_kind="project", subject_key="demo"))
    energy_mj = int(kwh * 3_600_000_000)
    assert found.energy_mj == energy_mj
    # The oracle: the same year divided over its 8 760 hours by hand, each hour rounded once.
    hours = durations_by_hour(*YEAR_2021)
    assert len(hours) == 8760
    parts = largest_remainder(energy_mj, list(hours.values()))
    factor = int(Fraction(row.split(",")[4]) * 1_000_000)
    pue = int(Fraction(row.split(",")[5]) * 1_000_000)
    assert found.emission_ug == sum(emission_ug(part, pue, factor) for part in parts)
    assert found.facility_energy_mj == sum(facility_mj(part, pue) for part in parts)
    assert abs(found.facility_energy_mj - facility_kwh * 3_600_000_000) <= Fraction(len(parts), 2)
    exact_ug = (grams if grams is not None else facility_kwh * 385) * 1_000_000
    assert abs(found.emission_ug - exact_ug) <= Fraction(len(parts), 2)
    assert f"{found.emission_ug / 1e12:.2f}" == printed_t
    assert found.without_factor_mj == 0
    assert set(LedgerEntry.objects.values_list("energy_quality", "placement_quality")) == {(4, 2)}


def test_the_same_file_twice_changes_nothing_and_other_figures_are_kept_aside(
    tmp_path: Path,
) -> None:
    lab = small_lab().lab
    load(tmp_path, "Cloud,demo,2021-01-01,2021-02-01,,,100,DE,,1.1")
    before = figure(lab, year(lab))
    assert "1 duplicate" in load(tmp_path, "Cloud,demo,2021-01-01,2021-02-01,,,100,DE,,1.1")
    told = load(tmp_path, "Cloud,demo,2021-01-01,2021-02-01,,,200,DE,,1.1")
    assert "1 quarantined conflict" in told
    assert "The first values are kept" in told
    assert figure(lab, year(lab)) == before
    assert before.energy_mj == 100 * 3_600_000_000


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("Cloud,nowhere,2021-01-01,2021-02-01,,,100,DE,,", "unknown project 'nowhere'"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,100,XX,,", "no lifecycle factor for zone 'XX'"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,,DE,,", "no energy"),
        ("Cloud,demo,2021-01-01,2021-02-01,10,,,DE,,", "no energy"),
        ("Cloud,demo,2021-01-01,2021-02-01,10,400,3,DE,,", "both set"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,1,,,", "neither zone nor g_per_kwh"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,1,,0,", "not a possible grid factor"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,1,DE,,0.9", "below 1"),
        ("Cloud,demo,2021-01-01,2020-02-01,,,1,DE,,", "the period is empty"),
        ("Cloud,demo,yesterday,2020-02-01,,,1,DE,,", "is not a date"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,much,DE,,", "is not a number"),
        (",demo,2021-01-01,2021-02-01,,,1,DE,,", "name is empty"),
    ],
)
def test_bad_rows_say_line_and_mend_and_import_nothing(
    tmp_path: Path, row: str, words: str
) -> None:
    small_lab()
    with pytest.raises(CommandError, match=words):
        load(tmp_path, "Good,demo,2021-01-01,2021-02-01,,,100,DE,,1.1", row)
    assert not LedgerEntry.objects.exists()


def test_without_a_lab_the_message_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="make setup LAB="):
        load(tmp_path, "Cloud,demo,2021-01-01,2021-02-01,,,100,DE,,")
