"""Files of annual factors: the shipped rows, bad rows, the difference, and the command."""

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.choices import Basis
from apps.carbon.factor_files import (
    COLUMNS,
    COUNTRY,
    MAX_G_PER_KWH,
    OPTIONAL_COLUMNS,
    SUBREGION,
    FileFactor,
    LoadedFactor,
    find_difference,
    parse_files,
)
from apps.carbon.factors import factors_of_zone
from apps.carbon.models import EmissionFactor
from apps.carbon.services import load_factors, read_factors, shipped_files
from apps.core.units import UG_PER_G
from apps.fleet.zones import zones
from tests.builders import T0, small_lab

ROW = {
    "zone": "DE",
    "zone_name": "Germany",
    "basis": "direct",
    "resolution": COUNTRY,
    "year": "2023",
    "g_per_kwh": "329",
    "low_g_per_kwh": "263.2",
    "high_g_per_kwh": "394.8",
    "source": "a source",
    "licence": "CC BY 4.0",
}


def _lines(*rows: dict[str, str]) -> list[str]:
    out = StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    writer.writerows(ROW | row for row in rows)
    return out.getvalue().splitlines(keepends=True)


def _file(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text("".join(_lines(*rows)), encoding="utf-8")
    return path


def _run(*args: Any, **options: Any) -> list[str]:
    out = StringIO()
    call_command("load_factors", *args, stdout=out, **options)
    return out.getvalue().splitlines()


def test_every_shipped_row_is_a_factor_with_its_source() -> None:
    table = read_factors(shipped_files())
    assert not table.bad_rows
    assert not table.without_figure
    assert {factor.basis for factor in table.factors} == set(Basis.values)
    assert len({factor.key for factor in table.factors}) == len(table.factors)
    for factor in table.factors:
        low, high = factor.low_ug_per_kwh, factor.high_ug_per_kwh
        assert low is not None, factor
        assert high is not None, factor
        assert 0 < low <= factor.ug_per_kwh <= high, factor
        assert factor.ug_per_kwh <= MAX_G_PER_KWH * UG_PER_G, factor
        assert factor.zone_name == zones()[factor.zone].name
        assert factor.source
        assert factor.licence


def test_a_shipped_zone_has_one_resolution_and_no_share_alike_licence() -> None:
    for factor in read_factors(shipped_files()).factors:
        parent = zones()[factor.zone].parent
        assert factor.resolution == (SUBREGION if parent else COUNTRY), factor
        for licence in ("ODbL", "SA", "MPL", "NC", "ND"):
            assert licence not in factor.licence.split(), factor


@pytest.mark.django_db
def test_loading_the_shipped_files_twice_is_loading_them_once() -> None:
    rows = list(EmissionFactor.objects.order_by("id").values())
    assert load_factors(now=T0 + 1) == 0
    assert list(EmissionFactor.objects.order_by("id").values()) == rows
    current = EmissionFactor.objects.filter(lab__isnull=True, superseded_us__isnull=True)
    keys = list(current.values_list("zone", "basis", "resolution", "year"))
    assert len(set(keys)) == len(keys) == len(read_factors(shipped_files()).factors)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"zone": "XX"}, "zone"),
        ({"zone": ""}, "zone"),
        ({"zone_name": ""}, "zone_name"),
        ({"basis": "marginal"}, "basis"),
        ({"resolution": "hourly"}, "resolution"),
        ({"year": "23"}, "year"),
        ({"year": "0999"}, "year"),
        ({"year": "٢٠٢٣"}, "year"),
        ({"g_per_kwh": "1500.1", "high_g_per_kwh": ""}, "g_per_kwh"),
        ({"g_per_kwh": "-1"}, "g_per_kwh"),
        ({"g_per_kwh": "NaN"}, "g_per_kwh"),
        ({"g_per_kwh": "1e3"}, "g_per_kwh"),
        ({"g_per_kwh": "3_29"}, "g_per_kwh"),
        ({"g_per_kwh": "9" * 40}, "g_per_kwh"),
        ({"low_g_per_kwh": "330"}, "low_g_per_kwh"),
        ({"low_g_per_kwh": "low"}, "low_g_per_kwh"),
        ({"high_g_per_kwh": "328"}, "high_g_per_kwh"),
        ({"source": " "}, "source"),
        ({"source": "s" * 401}, "source"),
        ({"source": "a\x00b"}, "source"),
        ({"licence": ""}, "licence"),
    ],
)
def test_a_bad_row_is_listed_by_line_and_reason(change: dict[str, str], reason: str) -> None:
    [bad] = parse_files([("a.csv", _lines({"zone": "FR"}, change))]).bad_rows
    assert (bad.file, bad.line) == ("a.csv", 3)
    assert bad.reason.startswith(f"{reason}:")


def test_other_bad_files_are_listed_too() -> None:
    short, long = "DE,Germany\n", f"{_lines({})[1].strip()},more\n"
    table = parse_files(
        [
            ("columns.csv", ["zone,year\n", "DE,2023\n"]),
            ("empty.csv", []),
            ("width.csv", [*_lines(), short, long]),
            ("quote.csv", [*_lines(), '"DE\n']),
            ("twice.csv", _lines({"zone": "FR"}, {"zone": "FR", "g_per_kwh": "300"})),
            ("again.csv", _lines({"zone": "FR"})),
        ]
    )
    assert [(bad.file, bad.line) for bad in table.bad_rows] == [
        ("columns.csv", 1),
        ("empty.csv", 1),
        ("width.csv", 2),
        ("width.csv", 3),
        ("quote.csv", 2),
        ("twice.csv", 3),
        ("again.csv", 2),
    ]
    assert "twice.csv, line 2" in table.bad_rows[-1].reason


def test_a_row_without_a_figure_or_with_zero_is_no_factor() -> None:
    table = parse_files([("a.csv", _lines({"g_per_kwh": ""}, {"g_per_kwh": "0.0"}))])
    assert (table.factors, table.bad_rows, table.without_figure) == ((), (), 2)


@given(
    st.dictionaries(st.sampled_from(sorted(zones())), st.integers(1, 1_500_000_000), max_size=9),
    st.dictionaries(st.sampled_from(sorted(zones())), st.integers(1, 1_500_000_000), max_size=9),
)
def test_each_factor_is_in_one_part_of_the_difference(
    before: dict[str, int], after: dict[str, int]
) -> None:
    def factor(zone: str, ug: int) -> FileFactor:
        return FileFactor(zone, zone, "direct", COUNTRY, 2023, ug, None, None, "a", "b")

    loaded = {
        (zone, "direct", COUNTRY, 2023, 0): LoadedFactor(factor(zone, ug), number, 1)
        for number, (zone, ug) in enumerate(before.items())
    }
    difference = find_difference([factor(zone, ug) for zone, ug in after.items()], loaded)
    assert {each.zone for each in difference.new} == after.keys() - before.keys()
    changed = {new.zone for _, new in difference.changed}
    assert changed == {zone for zone in after.keys() & before.keys() if before[zone] != after[zone]}
    assert difference.unchanged == len(after) - len(difference.new) - len(changed)
    kept = {old.factor.zone for old in difference.missing}
    assert kept == (before.keys() - after.keys() if after else set())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resolution": "monthly"}, "month: '' is not a month"),
        ({"resolution": "monthly", "month": "13"}, "month: '13' is not a month"),
        ({"resolution": "monthly", "month": "0"}, "month: '0' is not a month"),
        ({"month": "1"}, "month: an annual factor has none"),
        ({"hour_utc": "2023-01-01T00:00Z"}, "hour_utc: a factor with the resolution"),
        ({"resolution": "hourly_actual", "hour_utc": "2023-02-29T00:00Z"}, "hour_utc: '2023"),
        ({"edition": "x" * 400}, "source: longer than"),
    ],
)
def test_months_and_hours_that_do_not_exist_are_refused(
    change: dict[str, str], reason: str
) -> None:
    table = parse_files([("a.csv", _lines_with_months(change))])
    assert [row.reason.startswith(reason) for row in table.bad_rows] == [True], table.bad_rows


def _lines_with_months(change: dict[str, str]) -> list[str]:
    out = StringIO()
    writer = csv.DictWriter(out, (*COLUMNS, *OPTIONAL_COLUMNS))
    writer.writeheader()
    writer.writerow(ROW | dict.fromkeys(OPTIONAL_COLUMNS, "") | change)
    return out.getvalue().splitlines(keepends=True)


def test_a_month_is_a_factor_of_its_own_and_hours_are_of_a_lab() -> None:
    month = {"resolution": "monthly", "month": "7", "edition": "2"}
    [factor] = parse_files([("a.csv", _lines_with_months(month))]).factors
    assert (factor.year, factor.month, factor.period) == (2023, 7, "2023-07")
    assert factor.source == "a source, edition 2"
    hour = {
        "resolution": "hourly_actual", "hour_utc": "2023-07-01T04:00Z", "low_g_per_kwh": "",
        "high_g_per_kwh": "",
    }  # fmt: skip
    [bad] = parse_files([("a.csv", _lines_with_months(hour))]).bad_rows
    assert bad.reason == "resolution: only a lab's own file has hourly_actual factors"


@pytest.mark.django_db
def test_a_dry_run_prints_the_difference_and_writes_nothing(tmp_path: Path) -> None:
    rows = list(EmissionFactor.objects.order_by("id").values())
    path = _file(
        tmp_path / "a.csv",
        {"g_per_kwh": "300.5"},
        {"year": "2024", "g_per_kwh": "310"},
        {"zone": "FR", "zone_name": "France", "g_per_kwh": ""},
    )
    lines = _run(path, dry_run=True)
    assert list(EmissionFactor.objects.order_by("id").values()) == rows
    assert f"new: DE 2024 direct, {COUNTRY}: 310 g/kWh" in lines
    [changed] = [line for line in lines if line.startswith("changed: ")]
    assert changed.startswith(f"changed: DE 2023 direct, {COUNTRY}: 329 → 300.5 g/kWh, ")
    assert changed.endswith(", edition 1 → 2")
    assert f"kept: NZ 2025 direct, {COUNTRY}, edition 1: 78.7 g/kWh" in lines
    assert not any(" lifecycle" in line for line in lines)  # of another file
    assert lines[-1].startswith("1 would be new, 1 would be changed, 0 unchanged, ")
    assert lines[-1].endswith("1 rows without a figure")


@pytest.mark.django_db
def test_a_changed_factor_is_a_new_edition_and_the_others_stay(tmp_path: Path) -> None:
    count = EmissionFactor.objects.count()
    path = _file(tmp_path / "a.csv", {"g_per_kwh": "300"})
    assert _run(path)[-1].startswith("0 new, 1 changed, 0 unchanged, ")
    assert EmissionFactor.objects.count() == count + 1
    old, new = EmissionFactor.objects.filter(zone="DE", basis="direct").order_by("edition")
    assert (old.edition, old.ug_per_kwh, old.superseded_us is None) == (1, 329_000_000, False)
    assert (new.edition, new.ug_per_kwh, new.superseded_us) == (2, 300_000_000, None)
    assert _run(path)[-1].startswith("0 new, 0 changed, 1 unchanged, ")
    assert EmissionFactor.objects.count() == count + 1


@pytest.mark.django_db
def test_one_bad_row_loads_nothing_and_all_are_listed(tmp_path: Path) -> None:
    count = EmissionFactor.objects.count()
    good = _file(tmp_path / "good.csv", {"g_per_kwh": "300"})
    bad = _file(tmp_path / "bad.csv", {"zone": "XX"}, {"year": "2024"}, {"basis": ""})
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError) as refused:
        _run(good, bad, binary, tmp_path / "none.csv")
    lines = str(refused.value).splitlines()
    assert len(lines) == 5
    for place in ("bad.csv, line 2: ", "bad.csv, line 4: ", "binary.csv", "none.csv"):
        assert sum(line.startswith(place) for line in lines) == 1, place
    assert EmissionFactor.objects.count() == count


@pytest.mark.django_db
def test_the_closest_zone_of_the_basis_prices_a_site(tmp_path: Path) -> None:
    lab = small_lab().lab
    lab.basis = Basis.DIRECT
    for zone, closest in [
        ("DE", "DE"),
        ("US-EGRID-CAMX", "US-EGRID-CAMX"),
        ("AU-NSW", "AU-NSW"),
        ("SE-SE3", "SE"),
    ]:
        factors = factors_of_zone(lab, zone)
        assert {(factor.zone, factor.basis) for factor in factors} == {(closest, "direct")}
    for zone in ("JP", "JP-TK", "US", "US-MIDA-PJM"):
        assert factors_of_zone(lab, zone) == []
    load_factors(
        now=T0, path=_file(tmp_path / "a.csv", {"resolution": SUBREGION, "g_per_kwh": "300"})
    )
    assert [each.resolution for each in factors_of_zone(lab, "DE")] == [SUBREGION]
    assert {SUBREGION, COUNTRY} == {
        each.resolution for each in EmissionFactor.objects.filter(zone="DE", basis="direct")
    }
