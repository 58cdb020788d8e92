"""Declared activity through the ledger: the published examples come out to the integer."""

from fractions import Fraction
from io import StringIO
from math import hypot
from pathlib import Path
from uuid import NAMESPACE_URL, uuid4, uuid5

import pytest
import time_machine
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import Lab
from apps.activity.services import import_declared, read_rows
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery, hours_of_us
from apps.carbon.models import DeclaredRange
from apps.core.jobs import run_until_idle
from apps.core.units import MJ_PER_KWH, emission_ug, facility_mj, largest_remainder
from apps.dashboard.explain.pricing import pricing_of
from apps.energy.models import LedgerEntry
from apps.fleet.choices import SiteKind
from apps.fleet.models import Site
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from apps.runs.models import Run
from tests.builders import small_lab
from tests.examples import examples
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


CLOUD = "Cloud,demo,2021-01-01,2021-02-01"


def load_columns(tmp_path: Path, columns: str, *rows: str, dry_run: bool = False) -> str:
    path = tmp_path / "declared.csv"
    path.write_text("\n".join([columns, *rows]) + "\n", encoding="utf-8")
    out = StringIO()
    call_command("import_declared", path, stdout=out, dry_run=dry_run)
    run_until_idle(worker="test")
    return out.getvalue()


def test_the_same_file_twice_changes_nothing(tmp_path: Path) -> None:
    lab = small_lab().lab
    load(tmp_path, f"{CLOUD},,,100,DE,,1.1")
    before = figure(lab, year(lab))
    assert "1 duplicate" in load(tmp_path, f"{CLOUD},,,100,DE,,1.1")
    assert figure(lab, year(lab)) == before
    assert before.energy_mj == 100 * MJ_PER_KWH


def test_a_row_with_other_values_refuses_the_whole_file(tmp_path: Path) -> None:
    lab = small_lab().lab
    load(tmp_path, f"{CLOUD},,,100,DE,,1.1")
    before = figure(lab, year(lab))
    with pytest.raises(CommandError, match=r"line 3: .* other values"):
        load(
            tmp_path,
            "New,demo,2021-03-01,2021-04-01,,,7,DE,,1.1",
            f"{CLOUD},,,200,DE,,1.1",
        )
    assert figure(lab, year(lab)) == before
    assert not Run.objects.filter(name="New").exists()
    assert not QuarantinedWindow.objects.exists()


@pytest.mark.parametrize("energies", [(100, 100, 100), (100, 7, 100)])
def test_equal_jobs_in_one_file_are_as_many_jobs(tmp_path: Path, energies: tuple[int, ...]) -> None:
    lab = small_lab().lab
    rows = [f"{CLOUD},,,{kwh},DE,,1.1" for kwh in energies]
    assert "3 accepted" in load(tmp_path, *rows)
    whole = figure(lab, year(lab))
    assert whole.energy_mj == sum(energies) * MJ_PER_KWH
    assert Run.objects.filter(name="Cloud").count() == 3
    assert "3 duplicate" in load(tmp_path, *rows)
    more = load(tmp_path, "Other,demo,2021-05-01,2021-06-01,,,1,DE,,1.1", *rows)
    assert "1 accepted" in more
    assert "3 duplicate" in more
    assert figure(lab, year(lab)).energy_mj == whole.energy_mj + MJ_PER_KWH


def test_a_row_of_an_earlier_version_is_recognised(tmp_path: Path) -> None:
    """The identity of a row without an id, as earlier versions computed it, stays."""
    lab = small_lab().lab
    load(tmp_path, f"{CLOUD},,,100,DE,,1.1")
    site = Site.objects.get(kind=SiteKind.DECLARED)
    node = uuid5(NAMESPACE_URL, f"labcarbon:declared-node:{lab.pk}:{site.pk}")
    from_us, to_us = 1_609_459_200_000_000, 1_612_137_600_000_000
    identity = f"labcarbon:declared:{lab.pk}:{node}:demo:Cloud:{from_us}:{to_us}"
    assert Run.objects.get(name="Cloud").uuid == uuid5(NAMESPACE_URL, identity)


COLUMNS_WITH_ID = "id,name,project,from,to,kwh,zone,pue"


def test_rows_with_an_id_are_jobs_of_that_id(tmp_path: Path) -> None:
    lab = small_lab().lab
    rows = [f"{number},{CLOUD},100,DE,1.1" for number in ("a-1", "a-2")]
    assert "2 accepted" in load_columns(tmp_path, COLUMNS_WITH_ID, *rows)
    assert "2 duplicate" in load_columns(tmp_path, COLUMNS_WITH_ID, *reversed(rows))
    assert figure(lab, year(lab)).energy_mj == 200 * MJ_PER_KWH
    for changed in (
        f"a-1,{CLOUD},101,DE,1.1",
        f"a-1,{CLOUD},100,FR,1.1",
        f"a-1,{CLOUD},100,DE,1.2",
    ):
        with pytest.raises(CommandError, match=r"line 2: .* other values"):
            load_columns(tmp_path, COLUMNS_WITH_ID, changed)
    with pytest.raises(CommandError, match=r"line 3: id 'a-1' .* line 2"):
        load_columns(tmp_path, COLUMNS_WITH_ID, *rows[:1], *rows[:1])
    assert figure(lab, year(lab)).energy_mj == 200 * MJ_PER_KWH


@pytest.mark.parametrize("to", ["2999-01-01", "2026-12-24T00:00Z"])
def test_future_dates_are_refused(tmp_path: Path, to: str) -> None:
    small_lab()
    with time_machine.travel("2026-11-24T12:00:00Z", tick=False):
        with pytest.raises(CommandError, match=r"line 2: .* in the future"):
            load(tmp_path, f"Cloud,demo,2026-11-01,{to},,,100,DE,,1.1")
        assert "1 accepted" in load(tmp_path, "Cloud,demo,2026-11-01,2026-11-24,,,1,DE,,1.1")
    assert LedgerEntry.objects.count() == 23 * 24


def test_a_dry_run_reports_all_errors_and_writes_nothing(tmp_path: Path) -> None:
    small_lab()
    columns = HEADER.strip()
    assert "1 accepted" in load_columns(tmp_path, columns, f"{CLOUD},,,100,DE,,1.1", dry_run=True)
    assert not Run.objects.exists()
    with pytest.raises(CommandError, match="unknown project 'nowhere'"):
        load_columns(
            tmp_path, columns, "Cloud,nowhere,2021-01-01,2021-02-01,,,1,DE,,", dry_run=True
        )


def range_ppm(lab: Lab, metric: str = "emission_ug") -> tuple[int, int]:
    """Return the range of the year below and above its figure."""
    pricing = pricing_of(lab, year(lab).replace(metric=metric))
    whole = pricing.whole.value(metric)
    return (
        round((whole - pricing.range.low) * 1_000_000 / whole),
        round((pricing.range.high - whole) * 1_000_000 / whole),
    )


@pytest.mark.parametrize(
    ("row", "energy_ppm", "factor_ppm"),
    [
        (",,100,,57,1.0", 100_000, 200_000),  # kWh of a bill or a provider
        ("1000,400,,,57,1.0", 400_000, 200_000),  # hours × rated power
    ],
)
def test_a_declared_figure_has_a_default_range(
    tmp_path: Path, row: str, energy_ppm: int, factor_ppm: int
) -> None:
    lab = small_lab().lab
    load(tmp_path, f"{CLOUD},{row}")
    assert range_ppm(lab, "energy_mj") == (energy_ppm, energy_ppm)
    both = round(hypot(energy_ppm, factor_ppm))
    assert range_ppm(lab) == pytest.approx((both, both), abs=2)


RANGED = "name,project,from,to,kwh,kwh_low,kwh_high,g_per_kwh,g_per_kwh_low,g_per_kwh_high"


def test_a_declared_figure_has_its_stated_range(tmp_path: Path) -> None:
    lab = small_lab().lab
    assert "1 accepted" in load_columns(tmp_path, RANGED, f"{CLOUD},100,97,105,50,49,53")
    assert range_ppm(lab, "energy_mj") == (30_000, 50_000)
    low, high = round(hypot(30_000, 20_000)), round(hypot(50_000, 60_000))
    assert range_ppm(lab) == pytest.approx((low, high), abs=2)
    before = figure(lab, year(lab))
    assert "1 range changed" in load_columns(tmp_path, RANGED, f"{CLOUD},100,90,105,50,49,53")
    assert range_ppm(lab, "energy_mj") == (100_000, 50_000)
    assert figure(lab, year(lab)) == before


def test_ranges_of_several_rows_add(tmp_path: Path) -> None:
    lab = small_lab().lab
    load_columns(tmp_path, RANGED, f"{CLOUD},100,90,110,50,49,51", f"{CLOUD},100,60,140,50,49,51")
    assert range_ppm(lab, "energy_mj") == (250_000, 250_000)


def test_declared_energy_of_an_earlier_version_has_a_range(tmp_path: Path) -> None:
    lab = small_lab().lab
    load(tmp_path, f"{CLOUD},,,100,DE,,1.0")
    DeclaredRange.objects.all().delete()
    assert range_ppm(lab, "energy_mj") == (400_000, 400_000)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("100,97,,50,49,53", "kwh_low and kwh_high"),
        ("100,101,105,50,49,53", "kwh_low"),
        ("100,100,100,50,49,53", "kwh_low"),
        ("100,97,105,50,51,53", "g_per_kwh_low"),
        ("100,97,105,50,,53", "g_per_kwh_low and g_per_kwh_high"),
        ("100,-1,105,50,49,53", "kwh_low"),
    ],
)
def test_bad_ranges_are_refused(tmp_path: Path, values: str, words: str) -> None:
    small_lab()
    with pytest.raises(CommandError, match=rf"line 2: .*{words}"):
        load_columns(tmp_path, RANGED, f"{CLOUD},{values}")
    assert not Run.objects.exists()


@settings(max_examples=examples(25), deadline=None)
@given(energies=st.lists(st.integers(1, 3), min_size=1, max_size=6), data=st.data())
def test_any_file_in_any_order_counts_each_row_once(
    energies: list[int], data: st.DataObject
) -> None:
    lab = small_lab(name=f"Lab {uuid4()}").lab
    rows = [f"{CLOUD},{kwh},DE" for kwh in energies]
    lines = ["name,project,from,to,kwh,zone", *rows]
    now = 1_900_000_000_000_000
    for _ in range(2):
        import_declared(lab=lab, rows=read_rows(lines), origin="x", now=now)
    extra = data.draw(st.integers(0, len(rows)))
    lines.insert(1 + extra, "Else,demo,2021-02-01,2021-03-01,5,DE")
    import_declared(lab=lab, rows=read_rows(lines), origin="x", now=now)
    stored = EnergyWindow.objects.filter(device__lab=lab)
    assert sum(window.energy_mj for window in stored) == (sum(energies) + 5) * MJ_PER_KWH
    assert stored.count() == len(energies) + 1


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("Cloud,nowhere,2021-01-01,2021-02-01,,,100,DE,,", "unknown project 'nowhere'"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,100,XX,,", "'XX' is not a grid zone"),
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
        (f"Cloud,demo,2021-01-01,2021-02-01,,,{10**30},DE,,", f"kwh '{10**30}' is out of range"),
        (f"Cloud,demo,2021-01-01,2021-02-01,,,0.{1:030},DE,,", "is out of range"),
        (f"Cloud,demo,2021-01-01,2021-02-01,,,1,,{10**30},", "is out of range"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,1,DE,,1000000", "above 10"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,1e3,DE,,", "kwh '1e3' is not a number"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,1_000,DE,,", "is not a number"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,١٢,DE,,", "is not a number"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,-0,DE,,", "is not a number"),
        ("Cloud,demo,1960-01-01,1960-02-01,,,1,DE,,", "before 1970"),
        ("Cloud,demo,0001-01-01,0001-02-01,,,1,DE,,", "before 1970"),
        ("Cloud,demo,2018-01-01,2021-02-01,,,1,DE,,", "longer than 400 days"),
        ("Cloud,demo,2021-01-01,2021-02-01,,,1,DE,,1,5", "more fields than columns"),
        ("Cl\x00oud,demo,2021-01-01,2021-02-01,,,1,DE,,", "name contains an invalid character"),
        (f"{'x' * 200_000},demo,2021-01-01,2021-02-01,,,1,DE,,", "field larger than field limit"),
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


def test_two_columns_with_one_name_are_refused(tmp_path: Path) -> None:
    small_lab()
    path = tmp_path / "declared.csv"
    path.write_text("name,from,to,zone,kwh,kwh\nCloud,2021-01-01,2021-02-01,DE,1,2\n")
    with pytest.raises(CommandError, match="Two columns are named 'kwh'"):
        call_command("import_declared", path)
    assert not Run.objects.exists()
