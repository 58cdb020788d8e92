"""The basis of a lab: a change re-prices all energy, and no total contains both bases."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.choices import Basis
from apps.accounts.models import AuditEntry, Lab
from apps.carbon.basis import choose_basis, preview_basis
from apps.carbon.factor_levels import levels_of_zones
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.hourly_factors import record_hours
from apps.carbon.models import AppliedFactor, EmissionFactor, RolledDay, StaleSpan
from apps.carbon.rollups import writer
from apps.core.errors import InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from tests.builders import MINUTE, SmallLab, W, push, small_lab
from tests.carbon.test_rolled_days_history import H0, NOW

pytestmark = pytest.mark.django_db
HOURS, MJ = 30, 3_600_007


@pytest.fixture
def small() -> SmallLab:
    """A workstation in Germany (PUE 1) with energy in 30 hours, rolled up."""
    lab = small_lab()
    windows = [
        W("gpu:GPU-1", MJ, at, at + MINUTE, i, None, None, "nvml_power")
        for i, at in enumerate((H0 + offset) * US_PER_HOUR for offset in range(HOURS))
    ]
    push(lab.node, windows, received_us=NOW, sent_at=NOW)
    assert writer.roll_up(lab=lab.lab, now=NOW)
    return lab


def choose(small: SmallLab, basis: str) -> bool:
    return choose_basis(lab=small.lab, basis=basis, by=small.owner, now=NOW)


def emissions(small: SmallLab, basis: str = "") -> tuple[int, int]:
    """Return µg and mJ without a factor."""
    query = FigureQuery("emission_ug", H0, H0 + HOURS, basis=basis or small.lab.basis)
    found = figure(small.lab, query)
    return found.emission_ug, found.without_factor_mj


def expected_ug(ug_per_kwh: int) -> int:
    """Return the emissions of the 30 hours in exact fractions, each rounded half up."""
    exact = Fraction(MJ * ug_per_kwh, 3_600_000_000)
    return HOURS * int(exact + Fraction(1, 2))


def current_ug(zone: str, basis: str) -> int:
    rows = EmissionFactor.objects.filter(
        lab=None, zone=zone, basis=basis, superseded_us=None, year__lte=2026
    )
    value = rows.latest("year").ug_per_kwh
    assert value is not None
    return value


def test_all_past_energy_has_the_factors_of_the_new_basis_and_back(small: SmallLab) -> None:
    ug = {basis.value: current_ug("DE", basis) for basis in Basis}
    assert ug["lifecycle"] != ug["direct"]
    assert emissions(small) == (expected_ug(ug["lifecycle"]), 0)
    for basis in ("direct", "lifecycle"):
        assert choose(small, basis)
        assert Lab.objects.get(pk=small.lab.pk).basis == basis
        assert emissions(small) == (expected_ug(ug[basis]), 0), "from the ledger"
        assert set(
            AppliedFactor.objects.filter(node__lab=small.lab).values_list("basis", flat=True)
        ) == {basis}
        assert writer.roll_up(lab=small.lab, now=NOW)
        assert set(RolledDay.objects.filter(lab=small.lab).values_list("basis", flat=True)) <= {
            basis
        }
        assert emissions(small) == (expected_ug(ug[basis]), 0), "from the rollups"


def test_the_change_makes_the_rollups_stale_and_enqueues_their_job(small: SmallLab) -> None:
    assert not StaleSpan.objects.filter(lab=small.lab).exists()
    choose(small, "direct")
    assert StaleSpan.objects.filter(lab=small.lab, what="use").exists()
    run_until_idle(worker="test")


def test_no_total_contains_both_bases(small: SmallLab) -> None:
    """Energy of two zones, one without a direct factor: it is not priced with its lifecycle one."""
    other = small_lab(zone="US", name="Other Lab")
    push(
        other.node,
        [
            W(
                "gpu:GPU-1",
                MJ,
                H0 * US_PER_HOUR,
                H0 * US_PER_HOUR + MINUTE,
                1,
                None,
                None,
                "nvml_power",
            )
        ],
        received_us=NOW,
        sent_at=NOW,
    )
    assert emissions(other)[0] > 0
    choose(other, "direct")
    for _ in range(2):
        assert emissions(other) == (0, MJ)
        assert emissions(other, "lifecycle") == (0, MJ), "the lab has no lifecycle figures now"
        writer.roll_up(lab=other.lab, now=NOW)


def test_hourly_factors_of_the_other_basis_are_not_used(small: SmallLab) -> None:
    record_hours(
        lab=small.lab, zone="DE", basis="lifecycle", is_actual=True, source="S", licence="CC0",
        hours={H0: 1_000_000_000}, now=NOW,
    )  # fmt: skip
    run_until_idle(worker="test")
    before = emissions(small)
    choose(small, "direct")
    assert emissions(small) == (expected_ug(current_ug("DE", "direct")), 0)
    choose(small, "lifecycle")
    assert emissions(small) == before


def test_the_audit_log_has_the_change_once(small: SmallLab) -> None:
    assert choose(small, "direct")
    assert not choose(small, "direct")
    entries = AuditEntry.objects.filter(lab=small.lab, details__basis__has_key="from")
    assert [entry.details for entry in entries] == [
        {"basis": {"from": "lifecycle", "to": "direct"}}
    ]


def test_an_unknown_basis_changes_nothing(small: SmallLab) -> None:
    with pytest.raises(InvalidInput) as error:
        choose(small, "market")
    assert error.value.field == "basis"
    assert Lab.objects.get(pk=small.lab.pk).basis == "lifecycle"


def test_the_preview_equals_what_the_change_does(small: SmallLab) -> None:
    [row] = preview_basis(small.lab, "direct", H0)
    assert row.before is not None
    assert row.after is not None
    assert row.before.ug_per_kwh == current_ug("DE", "lifecycle")
    choose(small, "direct")
    applied = AppliedFactor.objects.get(
        node__lab=small.lab, from_hour__lte=H0, to_hour__gt=H0
    ).factor
    assert applied == row.after.factor


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    months=st.sets(st.sampled_from([(2026, 10), (2026, 11), (2026, 12)])),
    years=st.sets(st.sampled_from([2024, 2025, 2026])),
    hour=st.none() | st.booleans(),
)
def test_the_factor_in_force_is_the_most_precise_one(
    db: None, months: set[tuple[int, int]], years: set[int], hour: bool | None
) -> None:
    """Oracle: a list of candidates by rank, computed without the code of spans."""
    lab = small_lab().lab
    EmissionFactor.objects.filter(lab=lab).delete()
    lab.hourly_series.all().delete()
    candidates: list[tuple[int, int]] = []
    shared = {"lab": lab, "zone": "DE", "zone_name": "Germany", "basis": "lifecycle",
              "edition": 1, "source": "S", "licence": "CC0", "loaded_us": 1}  # fmt: skip
    for year in years:
        EmissionFactor.objects.create(
            **shared, resolution="annual_country", year=year, ug_per_kwh=year * 1000
        )
    for year, month in months:
        EmissionFactor.objects.create(
            **shared, resolution="monthly", year=year, month=month, ug_per_kwh=year * 1000 + month
        )
    if (2026, 11) in months:
        candidates.append((2, 2_026_011))
    if hour is not None:
        record_hours(
            lab=lab, zone="DE", basis="lifecycle", is_actual=hour, source="S", licence="CC0",
            hours={H0: 5}, now=NOW,
        )  # fmt: skip
        candidates.append((0 if hour else 1, 5))
    if 2026 in years:
        candidates.append((3, 2_026_000))
    if candidates:
        found = levels_of_zones(lab, ["DE"], H0)["DE"].applied
        assert found is not None
        assert found.ug_per_kwh == min(candidates)[1]
