"""A new edition of factors: an audit entry and a notice with each month before and after."""

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine

from apps.accounts.audit import verify
from apps.accounts.models import AuditEntry, Lab
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery, hours_of_us
from apps.carbon.models import EmissionFactor
from apps.carbon.services import DATA, load_factors
from apps.core.jobs import run_until_idle
from apps.core.units import UG_PER_KG, US_PER_HOUR
from apps.dashboard.overview.alerts import emission_change
from apps.fleet.models import SiteZone
from apps.fleet.services import correct_zone
from tests.builders import T0, SmallLab, W, push, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import text_of

pytestmark = pytest.mark.django_db
MONTHS = {"2026-11": 100_000_000, "2026-12": 200_000_000, "2027-01": 300_000_000}


@pytest.fixture
def small() -> SmallLab:
    """A lab in Germany with energy in three months, and none in others."""
    lab = small_lab()
    windows = []
    for number, (month, energy_mj) in enumerate(MONTHS.items()):
        start = int(datetime.fromisoformat(f"{month}-15T12:00:00+00:00").timestamp()) * 1_000_000
        windows.append(
            W("gpu:GPU-1", energy_mj, start_us=start, end_us=start + US_PER_HOUR, seq=number)
        )
    assert push(lab.node, windows) == [["accepted"]] * len(MONTHS)
    return lab


def _table(tmp_path: Path, **changes: str) -> Path:
    """Return the shipped table with other g/kWh of ``zone_year``, '' to leave a row out."""
    path = tmp_path / "annual_lifecycle.csv"
    with (DATA / path.name).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        grams = changes.get(f"{row['zone']}_{row['year']}")
        if grams is not None:
            row |= {"g_per_kwh": grams, "low_g_per_kwh": "", "high_g_per_kwh": ""}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def _emissions(lab: Lab) -> dict[str, int]:
    """Return µg by month, each from its own query."""
    result = {}
    for month in MONTHS:
        start = datetime.fromisoformat(f"{month}-01T00:00:00+01:00").astimezone(UTC)
        from_us = int(start.timestamp()) * 1_000_000
        from_hour, to_hour = hours_of_us(from_us, from_us + 28 * 24 * US_PER_HOUR)
        query = FigureQuery("emission_ug", from_hour, to_hour, basis=lab.basis)
        result[month] = figure(lab, query).emission_ug
    return result


def _entries(lab: Lab) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(lab=lab, action="factors.changed"))


def test_an_edition_writes_each_month_before_and_after(tmp_path: Path, small: SmallLab) -> None:
    before = _emissions(small.lab)
    assert load_factors(now=T0, path=_table(tmp_path, DE_2025="100", FR_2025="99")) == 2
    run_until_idle(worker="test")
    after = _emissions(small.lab)
    [entry] = _entries(small.lab)
    assert {name: change for name, change in entry.details.items() if name.endswith("_ug")} == {
        f"{month}_ug": {"from": before[month], "to": after[month]} for month in MONTHS
    }
    assert all(0 < after[month] < before[month] for month in MONTHS)
    assert entry.details["factor 1"]["to"] == "DE 2025, edition 2: 100 g/kWh"
    assert "factor 2" not in entry.details  # France is not used
    assert entry.user is None
    assert verify(small.lab) is None


def test_the_notice_shows_the_months_and_ends(tmp_path: Path, small: SmallLab) -> None:
    client = client_of(small.owner)
    assert 'data-alert="factors"' not in text_of(client.get("/"))
    load_factors(now=T0, path=_table(tmp_path, DE_2025="100"))
    run_until_idle(worker="test")
    page = text_of(client.get("/"))
    assert 'data-alert="factors"' in page
    for month in MONTHS:
        assert f"{month}: " in page
    audit = text_of(client.get("/audit/?action=factors.changed"))
    assert "2026-12" in audit
    assert "DE 2025, edition 2: 100 g/kWh" in audit
    [entry] = _entries(small.lab)
    with time_machine.travel(entry.at_us / 1e6 + 31 * 24 * 3600, tick=False):
        later = client_of(small.owner)
        assert 'data-alert="factors"' not in text_of(later.get("/"))


def test_an_edition_that_changes_no_figure_writes_nothing(tmp_path: Path, small: SmallLab) -> None:
    load_factors(now=T0, path=_table(tmp_path, FR_2025="1", DE_2019="1"))
    run_until_idle(worker="test")
    assert _entries(small.lab) == []


def test_the_same_table_again_writes_nothing(tmp_path: Path, small: SmallLab) -> None:
    path = _table(tmp_path, DE_2025="100")
    load_factors(now=T0, path=path)
    run_until_idle(worker="test")
    load_factors(now=T0, path=path)
    run_until_idle(worker="test")
    assert len(_entries(small.lab)) == 1


def test_a_decision_of_a_person_is_no_edition(small: SmallLab) -> None:
    correct_zone(site=small.site, zone="FR", by=small.owner, now=T0)
    run_until_idle(worker="test")
    assert _entries(small.lab) == []


def test_a_zone_that_is_read_otherwise_is_reported_too(small: SmallLab) -> None:
    SiteZone.objects.filter(site=small.site).update(zone="SA-EAST-1")
    before = _emissions(small.lab)
    load_factors(now=T0)
    run_until_idle(worker="test")
    [entry] = _entries(small.lab)
    after = _emissions(small.lab)
    assert entry.details["2026-11_ug"] == {"from": before["2026-11"], "to": after["2026-11"]}
    assert entry.details["factor 1"]["to"].startswith("BR 2")


def test_the_first_factor_of_a_zone_that_had_that_of_its_country_is_an_edition(
    tmp_path: Path, small: SmallLab
) -> None:
    correct_zone(site=small.site, zone="BR-CS", by=small.owner, now=T0)
    run_until_idle(worker="test")
    assert _entries(small.lab) == []
    before = _emissions(small.lab)
    path = _table(tmp_path)
    with path.open("a", encoding="utf-8") as file:
        file.write("BR-CS,Brazil CS,lifecycle,annual_country,2025,30,20,40,a source,CC BY 4.0\n")
    assert load_factors(now=T0 + 1, path=path) == 1
    run_until_idle(worker="test")
    [entry] = _entries(small.lab)
    after = _emissions(small.lab)
    assert entry.details["2026-11_ug"] == {"from": before["2026-11"], "to": after["2026-11"]}
    factors = [change for name, change in entry.details.items() if name.startswith("factor ")]
    assert {change["from"][:3] for change in factors} == {"BR "}
    assert {change["to"] for change in factors} == {"BR-CS 2025, edition 1: 30 g/kWh"}


def test_energy_that_loses_its_factor_is_unknown_not_zero(small: SmallLab) -> None:
    SiteZone.objects.filter(site=small.site).update(zone="SA-NOWHERE")
    load_factors(now=T0)
    run_until_idle(worker="test")
    [entry] = _entries(small.lab)
    assert entry.details["2026-11 without factor_mj"] == {"from": 0, "to": MONTHS["2026-11"]}


def test_a_later_year_of_a_factor_is_an_edition(tmp_path: Path, small: SmallLab) -> None:
    current = EmissionFactor.objects.get(zone="DE", year=2025, superseded_us__isnull=True)
    path = _table(tmp_path)
    with path.open("a", encoding="utf-8") as file:
        file.write("DE,Germany,lifecycle,annual_country,2026,50,40,60,a source,CC BY 4.0\n")
    assert load_factors(now=T0, path=path) == 1
    run_until_idle(worker="test")
    [entry] = _entries(small.lab)
    assert entry.details["factor 1"] == {
        "from": f"DE 2025, edition {current.edition}: {current.ug_per_kwh / 1e6:g} g/kWh",
        "to": "DE 2026, edition 1: 50 g/kWh",
    }


@pytest.mark.parametrize(
    ("before_kg", "after_kg", "text"),
    [
        (46, 47, "46.0 → 47.0 kg CO₂e"),
        (12_345, 13_345, "12.3 → 13.3 t CO₂e"),
        (12_345, 12_346, "12\u202f345 → 12\u202f346 kg CO₂e"),
        (0, 2, "0 → 2.00 kg CO₂e"),
    ],
)
def test_the_notice_shows_the_difference_without_an_exponent(
    before_kg: int, after_kg: int, text: str
) -> None:
    assert emission_change(before_kg * UG_PER_KG, after_kg * UG_PER_KG) == text
