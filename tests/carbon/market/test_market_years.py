"""Market-based totals of a year: they follow the ledger, and are stale when an input changes."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from apps.carbon.basis import choose_basis
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.jobs import match_job
from apps.carbon.market.choices import MarketRule, RuleEdition
from apps.carbon.market.market_years import compute_years, stored_years, years_of
from apps.carbon.market.models import MarketYear
from apps.carbon.market.selectors import matching_year
from apps.carbon.market.services import withdraw_instrument
from apps.carbon.market.year_inputs import use_by_zone, year_inputs
from apps.carbon.rollups import writer
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.core.units import MJ_PER_KWH, US_PER_HOUR, hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.services import correct_zone, create_site, move_node, set_pue
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.carbon.market.instruments import RESIDUAL, add

pytestmark = pytest.mark.django_db(transaction=True)
IN_FORCE, DRAFT = RuleEdition.SCOPE2_2015, RuleEdition.SCOPE2_DRAFT_2025
KWH = MJ_PER_KWH
H0 = hour_of(T0) - 9  # a day of the lab (Europe/Berlin): 2026-11-01T23:00Z
NOW = (H0 + 5 * 24 + 3) * US_PER_HOUR


def use(small: SmallLab, *windows: tuple[int, int], first: int = 0) -> None:
    """Push (offset of an hour, mJ), and sum the completed days."""
    listed = [
        W("gpu:GPU-1", mj, at, at + MINUTE, first + i, (("proc:ann/python3", mj),), None,
          "nvml_power")
        for i, (at, mj) in enumerate(((H0 + hour) * US_PER_HOUR, mj) for hour, mj in windows)
    ]  # fmt: skip
    push(small.node, listed, received_us=NOW, sent_at=NOW)
    assert writer.roll_up(lab=small.lab, now=NOW)


def computed(small: SmallLab) -> dict[RuleEdition, Any]:
    assert compute_years(lab=small.lab, now=NOW)
    found = stored_years(small.lab, 2026, NOW)
    assert [year.is_stale for year in found.values()] == [False, False]
    return {edition: year.result for edition, year in found.items()}


def test_without_instruments_the_residual_mix_applies() -> None:
    small = small_lab()
    use(small, (1, 1_000_000), (30, 3_000_001))
    add(small.lab, **RESIDUAL)
    results = computed(small)
    for result in results.values():
        assert {line.rule for line in result.lines} == {MarketRule.RESIDUAL_MIX}
        assert result.covered_mj == result.missing_mj == result.incomparable_mj == 0
    [line] = results[IN_FORCE].lines
    whole = location_of(small)
    assert line.energy_mj == whole.facility_energy_mj
    upstream = results[IN_FORCE].rates["DE"].upstream_ug_per_kwh
    assert upstream is not None
    assert upstream > 0
    assert line.emission_ug == pytest.approx(line.energy_mj * (724_600_000 + upstream) / KWH, abs=2)


def location_of(small: SmallLab) -> Any:
    hours = matching_year(small.lab, 2026)
    query = FigureQuery(
        metric="emission_ug", from_hour=hours.from_hour, to_hour=hours.to_hour,
        subject_kind="lab", basis=small.lab.basis,
    )  # fmt: skip
    return figure(small.lab, query)


def test_the_location_based_total_is_that_of_figures() -> None:
    small = small_lab()
    other = create_site(
        lab=small.lab, name="Cloud", kind=SiteKind.DATA_CENTRE, zone="FR", pue_ppm=1_234_567
    )
    use(small, (1, 1_000_003), (30, 3_000_001), (49, 77))
    move_node(node=small.node, site=other, from_us=(H0 + 30) * US_PER_HOUR, now=NOW, by=small.owner)
    run_until_idle(worker="test")
    assert writer.roll_up(lab=small.lab, now=NOW)
    results = computed(small)
    whole = location_of(small)
    for result in results.values():
        assert result.location_ug == whole.emission_ug
        assert result.energy_mj == whole.facility_energy_mj
        assert sum(part.energy_mj for part in result.location.values()) == whole.energy_mj
        assert set(result.location) == {"DE", "FR"}


def test_certificates_of_a_year_cover_less_by_hour() -> None:
    small = small_lab()
    use(small, *((hour, 36_000_000) for hour in range(20)))
    energy_mj = location_of(small).facility_energy_mj
    volume_wh = -(-energy_mj // 3_600_000)
    add(small.lab, **RESIDUAL)
    add(
        small.lab, volume_wh=volume_wh, first_day=date(2026, 11, 2), last_day=date(2026, 11, 3),
    )  # fmt: skip
    results = computed(small)
    assert results[IN_FORCE].covered_mj == energy_mj
    draft = results[DRAFT]
    assert 0 < draft.covered_mj < energy_mj
    assert draft.energy_mj == energy_mj
    assert sum(draft.used_mj.values()) == draft.covered_mj <= sum(draft.available_mj.values())
    assert {line.rule for line in draft.lines} == {
        MarketRule.CERTIFICATE, MarketRule.RESIDUAL_MIX,
    }  # fmt: skip
    assert sum(line.emission_ug or 0 for line in draft.lines) == draft.emission_ug


def is_stale(small: SmallLab) -> bool:
    return stored_years(small.lab, 2026, NOW)[IN_FORCE].is_stale


def test_a_changed_input_makes_them_stale() -> None:
    small = small_lab()
    use(small, (1, 1_000_000))
    computed(small)

    instrument = add(small.lab)
    assert is_stale(small)
    assert Job.objects.filter(kind="carbon.match", key=str(small.lab.pk)).exists()
    computed(small)
    withdraw_instrument(lab=small.lab, instrument=instrument, reason="Test", by=None, now=T0)
    assert is_stale(small)
    computed(small)

    use(small, (2, 5_000), first=9)
    assert is_stale(small)
    computed(small)
    set_pue(site=small.site, pue_ppm=1_500_000, from_us=H0 * US_PER_HOUR, by=small.owner, now=NOW)
    run_until_idle(worker="test")
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert is_stale(small)
    computed(small)
    correct_zone(site=small.site, zone="FR", by=small.owner, now=NOW)
    assert is_stale(small)
    run_until_idle(worker="test")
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert set(computed(small)[IN_FORCE].location) == {"FR"}
    choose_basis(lab=small.lab, basis="direct", by=small.owner, now=NOW)
    assert is_stale(small)
    assert stored_years(small.lab, 2026, NOW + 24 * US_PER_HOUR)[IN_FORCE].is_stale


def test_hours_that_are_not_rolled_up_are_never_counted() -> None:
    small = small_lab()
    use(small, (1, 1_000_000))
    at = (H0 + 26) * US_PER_HOUR
    late = W("gpu:GPU-1", 7, at, at + MINUTE, 9, (("proc:ann/python3", 7),), None, "nvml_power")
    push(small.node, [late], received_us=NOW, sent_at=NOW, settle=True)
    inputs = year_inputs(small.lab, 2026, NOW)
    if inputs is None:  # stale until the rollup
        assert compute_years(lab=small.lab, now=NOW)
        assert stored_years(small.lab, 2026, NOW) == {}
        assert writer.roll_up(lab=small.lab, now=NOW)
    results = computed(small)
    assert results[IN_FORCE].energy_mj == location_of(small).facility_energy_mj


def test_the_job_is_idempotent() -> None:
    small = small_lab()
    use(small, (1, 1_000_000))
    computed(small)
    rows = list(MarketYear.objects.order_by("pk").values())
    assert compute_years(lab=small.lab, now=NOW)
    assert list(MarketYear.objects.order_by("pk").values()) == rows
    match_job(str(small.lab.pk))
    assert MarketYear.objects.filter(lab=small.lab, year=2026).count() == 2


def test_a_lab_without_use() -> None:
    small = small_lab()
    assert years_of(small.lab, NOW) == [2026]
    results = computed(small)
    assert all(result.lines == () for result in results.values())
    assert use_by_zone(small.lab, 0, H0) == {}


def test_years_are_those_of_the_lab() -> None:
    small = small_lab()
    use(small, (1, 1_000_000))
    assert years_of(small.lab, int(datetime(2028, 1, 1, tzinfo=UTC).timestamp()) * 10**6) == [
        2028, 2027, 2026,
    ]  # fmt: skip
