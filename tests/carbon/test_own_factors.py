"""Import of own factors: which hours are priced again, by how much, and for whom."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry, Lab
from apps.carbon.figures.energy import entries, figure
from apps.carbon.figures.factor_spans import PeriodFactor
from apps.carbon.figures.figure_query import FigureQuery, iso_hour
from apps.carbon.hourly_factors import record_hours
from apps.carbon.models import AppliedFactor, EmissionFactor, HourFactor, StaleSpan
from apps.carbon.own_factors.hour_changes import ZoneValues, changed_hours, intersect
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.own_factors.progress import repriced_percent
from apps.carbon.own_factors.services import confirm_factors, upload_factors
from apps.carbon.rollups import writer
from apps.core.errors import Conflict
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.fleet.services import correct_zone
from tests.builders import MINUTE, SmallLab, W, push, small_lab
from tests.carbon.test_rolled_days_history import H0, NOW

pytestmark = pytest.mark.django_db
HOURS = 60
MJ = 3_600_000  # 1 Wh
HEADER = "zone,basis,resolution,year,month,hour_utc,g_per_kwh,source,licence\n"
YEAR = datetime.fromtimestamp(H0 * 3600, tz=UTC).year


@pytest.fixture
def small() -> SmallLab:
    """A workstation in Germany (PUE 1) with 1 Wh in each of 60 hours."""
    lab = small_lab()
    windows = [
        W("gpu:GPU-1", MJ, at, at + MINUTE, i, None, None, "nvml_power")
        for i, at in enumerate((H0 + offset) * US_PER_HOUR for offset in range(HOURS))
    ]
    assert push(lab.node, windows, received_us=NOW, sent_at=NOW) == [["accepted"]] * HOURS
    assert writer.roll_up(lab=lab.lab, now=NOW)
    return lab


def annual(grams: int, *, zone: str = "DE", year: int = YEAR) -> str:
    return f"{zone},lifecycle,annual_country,{year},,,{grams},Report,own\n"


def hours(values: dict[int, int], *, zone: str = "DE", kind: str = "actual") -> str:
    return "".join(
        f"{zone},lifecycle,hourly_{kind},,,{iso_hour(H0 + offset)},{grams},Meter,own\n"
        for offset, grams in values.items()
    )


def upload(lab: SmallLab, *rows: str) -> OwnFactorFile:
    content = (HEADER + "".join(rows)).encode()
    return upload_factors(lab=lab.lab, file_name="a.csv", content=content, by=lab.owner, now=NOW)


def load(lab: SmallLab, *rows: str) -> OwnFactorFile:
    file = upload(lab, *rows)
    assert confirm_factors(file=file, by=lab.owner, now=NOW)
    run_until_idle(worker="test")
    file.refresh_from_db()
    return file


def grams(small: SmallLab) -> list[int]:
    """Return g per kWh of each hour, as emitted by its 1 Wh."""
    query = FigureQuery("emission_ug", H0, H0 + HOURS, basis=small.lab.basis)
    rows = sorted(entries(small.lab, query), key=lambda row: row["hour"])
    return [round(row["emission_ug"] / 1_000) for row in rows]


def total(lab: Lab) -> int:
    query = FigureQuery("emission_ug", H0, H0 + HOURS, basis=lab.basis)
    return figure(lab, query).emission_ug


def test_years_months_and_hours_price_the_energy_of_the_lab(small: SmallLab) -> None:
    load(small, annual(300), hours({0: 100, 59: 900}))
    assert grams(small) == [100, *[300] * 58, 900]
    assert total(small.lab) == (58 * 300 + 1000) * 1_000
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert total(small.lab) == (58 * 300 + 1000) * 1_000
    time = datetime.fromtimestamp((H0 + 1) * 3600, tz=UTC)
    load(small, f"DE,lifecycle,monthly,{time.year},{time.month},,77,Report,own\n")
    assert grams(small)[1] == 77
    assert grams(small)[0] == 100


def test_the_preview_writes_nothing(small: SmallLab) -> None:
    before = grams(small)
    models = (EmissionFactor, HourFactor, AppliedFactor, StaleSpan, AuditEntry)
    stored = [list(model.objects.order_by("pk").values()) for model in models]
    file = upload(small, annual(300), hours({0: 100}))
    assert file.summary["sites"][0]["site"] == small.site.pk
    assert [list(model.objects.order_by("pk").values()) for model in models] == stored
    run_until_idle(worker="test")
    assert grams(small) == before
    assert OwnFactorFile.objects.count() == 1


def test_the_example_of_the_documentation_is_imported_as_printed(small: SmallLab) -> None:
    text = (settings.BASE_DIR / "docs" / "factors.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```csv\n(.*?)```", text, re.DOTALL)
    now = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp()) * 1_000_000
    file = upload_factors(
        lab=small.lab, file_name="a.csv", content=example.encode(), by=small.owner, now=now
    )
    assert file.summary["counts"] == {"new": 4, "changed": 0, "same": 0, "kept": 0, "wrong": 0}
    assert confirm_factors(file=file, by=small.owner, now=now)
    factor = EmissionFactor.objects.get(lab=small.lab, resolution="monthly")
    assert factor.source == "Energy report of the campus, edition 2026"


def test_another_lab_keeps_its_factors(small: SmallLab) -> None:
    other = small_lab(name="Another lab")
    before = grams(small)
    load(other, annual(1), hours(dict.fromkeys(range(HOURS), 1)))
    assert grams(small) == before


def test_the_span_is_that_of_the_changed_energy(small: SmallLab) -> None:
    file = upload(small, hours({-5: 100, 3: 100, 7: 100}))
    assert (file.from_hour, file.to_hour) == (H0 + 3, H0 + 8)
    assert file.summary["sites"][0]["zones"] == ["DE"]
    assert upload(small, annual(300, zone="FR")).from_hour is None
    file = upload(small, annual(300))
    assert (file.from_hour, file.to_hour) == (H0, H0 + HOURS)
    load(small, hours(dict.fromkeys(range(HOURS), 50)))
    assert upload(small, annual(300)).from_hour is None  # each hour has its own factor


def test_an_uploaded_hour_precedes_one_of_a_provider_of_the_same_quality(small: SmallLab) -> None:
    load(small, hours({1: 100}), hours({2: 200}, kind="estimated"))

    def provide(values: dict[int, int], *, is_actual: bool) -> int:
        return record_hours(
            lab=small.lab, zone="DE", basis="lifecycle", is_actual=is_actual, source="Grid API",
            licence="CC0", hours={H0 + hour: g * 10**6 for hour, g in values.items()}, now=NOW,
        )  # fmt: skip

    assert provide({1: 5, 2: 6}, is_actual=False) == 0
    assert provide({1: 7, 2: 8}, is_actual=True) == 1
    assert grams(small)[1:3] == [100, 8]


def test_an_estimated_hour_does_not_replace_a_measured_one(small: SmallLab) -> None:
    load(small, hours({1: 100}))
    file = upload(small, hours({1: 150, 2: 150}, kind="estimated"))
    assert file.summary["counts"] == {"new": 1, "changed": 0, "same": 0, "kept": 1, "wrong": 0}
    assert confirm_factors(file=file, by=small.owner, now=NOW)
    run_until_idle(worker="test")
    assert grams(small)[1:3] == [100, 150]


def test_an_equal_file_changes_nothing(small: SmallLab) -> None:
    load(small, annual(300), hours({1: 100}))
    file = upload(small, annual(300), hours({1: 100}))
    assert file.summary["counts"]["same"] == 2
    with pytest.raises(Conflict, match="changes no factor"):
        confirm_factors(file=file, by=small.owner, now=NOW)


def test_the_months_of_the_preview_are_those_of_the_audit_entry(small: SmallLab) -> None:
    before = total(small.lab)
    file = load(small, annual(300))
    entry = AuditEntry.objects.get(lab=small.lab, action="factors.changed")
    months = {name[:7]: change for name, change in entry.details.items() if name.endswith("_ug")}
    assert sorted(months) == file.summary["sites"][0]["months"]
    assert sum(change["from"] for change in months.values()) == before
    assert sum(change["to"] for change in months.values()) == total(small.lab) == 18_000_000


def test_a_zone_of_a_site_in_the_past_counts(small: SmallLab) -> None:
    correct_zone(site=small.site, zone="FR", by=None, now=NOW)
    run_until_idle(worker="test")
    assert upload(small, annual(300)).summary["sites"] == []
    assert upload(small, annual(300, zone="FR")).from_hour == H0


def test_progress_ends_when_the_days_are_summed(small: SmallLab) -> None:
    file = upload(small, annual(300))
    assert confirm_factors(file=file, by=small.owner, now=NOW)

    def percent() -> int | None:
        return repriced_percent(
            small.lab, from_hour=file.from_hour, to_hour=file.to_hour, since_us=NOW, now=NOW
        )

    assert percent() is None
    run_until_idle(worker="test")
    assert percent() in range(100)
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert percent() == 100
    assert repriced_percent(small.lab, from_hour=None, to_hour=None, since_us=NOW, now=NOW) == 100


def test_an_unconfirmed_file_is_deleted_after_a_week(small: SmallLab) -> None:
    old = upload(small, annual(300))
    upload_factors(
        lab=small.lab, file_name="b.csv", content=(HEADER + annual(1)).encode(), by=small.owner,
        now=NOW + 8 * 24 * US_PER_HOUR,
    )  # fmt: skip
    assert not OwnFactorFile.objects.filter(pk=old.pk).exists()


_VALUES = st.dictionaries(st.integers(0, 80), st.integers(1, 3), max_size=40)
_MONTHS = st.dictionaries(st.integers(0, 12), st.integers(1, 3), max_size=3)


@given(_VALUES, _VALUES, _MONTHS, _MONTHS)
def test_changed_hours_are_those_with_another_value(
    hours_before: dict[int, int],
    hours_after: dict[int, int],
    before: dict[int, int],
    after: dict[int, int],
) -> None:
    """The oracle looks each hour up: its own value, else its month's, else the only year's."""
    start = hour_of(int(datetime(2026, 1, 30, tzinfo=UTC).timestamp()) * 1_000_000)

    def values(by_hour: dict[int, int], by_month: dict[int, int]) -> ZoneValues:
        periods = [PeriodFactor(100 + month, 2026, month) for month in by_month]
        return ZoneValues(
            periods,
            {100 + month: value for month, value in by_month.items()},
            {start + hour: value for hour, value in by_hour.items()},
        )

    def value(hour: int, by_hour: dict[int, int], by_month: dict[int, int]) -> int | None:
        month = datetime.fromtimestamp((start + hour) * 3600, tz=UTC).month
        return by_hour.get(hour, by_month.get(month, by_month.get(0)))

    intervals = changed_hours(
        values(hours_before, before), values(hours_after, after), start, start + 80
    )
    listed = [hour - start for first, last in intervals for hour in range(first, last)]
    assert listed == [
        hour
        for hour in range(80)
        if value(hour, hours_before, before) != value(hour, hours_after, after)
    ]


_INTERVALS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda pair: (pair[0], sum(pair))),
    max_size=6,
)


@given(_INTERVALS, _INTERVALS)
def test_intersections_are_the_common_hours(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    sets = [{hour for start, end in side for hour in range(start, end)} for side in (one, other)]
    listed = [hour for start, end in intersect(one, other) for hour in range(start, end)]
    assert listed == sorted(sets[0] & sets[1])
