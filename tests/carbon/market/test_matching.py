"""Market-based matching: order of instruments, editions, missing factors, and worked examples."""

import pytest

from apps.carbon.market.choices import (
    Exclusion,
    Granularity,
    InstrumentKind,
    MarketRule,
    RuleEdition,
    VolumeProfile,
)
from apps.carbon.market.records import Rate, ZoneRates
from tests.carbon.market.cases import (
    DRAFT,
    IN_FORCE,
    KWH,
    YEAR,
    G,
    flat,
    instrument,
    mix,
    run,
)

GRID = Rate(329 * G, None, 2026)
BOTH = pytest.mark.parametrize("edition", [IN_FORCE, DRAFT])


def energies(matching) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """Return kWh by rule."""
    return {rule.value: mj / KWH for rule, mj in matching.totals().by_rule.items()}


@BOTH
def test_germany_without_instruments_has_the_residual_mix(edition: RuleEdition) -> None:
    """The dual reporting example of the methodology: 724.6 against 329 g/kWh, direct basis."""
    matching = run(
        edition, {"A": flat(1)}, rates={"A": ZoneRates(residual_mix=mix(724.6), grid=GRID)}
    )
    totals = matching.totals()
    assert totals.emission_ug == 8_760 * 724_600_000
    location_ug = 8_760 * 329 * G
    assert round(totals.emission_ug / location_ug, 2) == 2.20
    assert energies(matching) == {"residual_mix": 8_760}
    assert totals.covered_ppm == 0


def test_a_year_of_certificates_covers_all_by_year_and_61_percent_by_hour() -> None:
    """Own example: constant use of 1 kWh, and wind power that is only there in 61 % of the hours,
    with a volume of the whole year.
    """
    windy = [hour % 100 < 61 for hour in range(8_760)]
    hours = sum(windy)
    certificates = instrument(
        hourly_kwh=[8_760 / hours if is_windy else 0 for is_windy in windy], plant="A"
    )
    rates = {"A": ZoneRates(residual_mix=mix(700))}
    by_year = run(IN_FORCE, {"A": flat(1)}, [certificates], rates).totals()
    by_hour = run(DRAFT, {"A": flat(1)}, [certificates], rates).totals()
    assert by_year.covered_mj >= by_year.energy_mj - 8_760  # mJ: volumes are rounded
    assert by_year.emission_ug < G
    assert by_hour.covered_mj == hours * KWH
    assert by_hour.covered_ppm is not None
    assert by_hour.covered_ppm // 10_000 == 61
    assert by_hour.emission_ug == (8_760 - hours) * 700 * G


def test_company_with_certificates_a_supplier_rate_and_the_residual_mix() -> None:
    """Own example. A: 10 000 kWh with certificates for 4 000 kWh and a tariff of 250 g/kWh for
    5 000 kWh; the rest has the residual mix of 500 g/kWh. B: 2 000 kWh with the residual mix of
    60 g/kWh, below its grid average of 80.
    """
    matching = run(
        IN_FORCE,
        {
            "A": flat(1, range(10_000 // 5)) | flat(4, range(2_000, 4_000)),
            "B": flat(2, range(1000)),
        },
        [
            instrument(1, 4_000),
            instrument(2, 5_000, kind=InstrumentKind.TARIFF, g=250),
        ],
        {
            "A": ZoneRates(residual_mix=mix(500, 3)),
            "B": ZoneRates(residual_mix=mix(60, 4), grid=Rate(80 * G, None, 2026)),
        },
    )
    lines = [
        (line.zone, line.rule.value, line.instrument_id, line.energy_mj // KWH, line.emission_ug)
        for line in matching.lines
    ]
    assert lines == [
        ("A", "certificate", 1, 4_000, 0),
        ("A", "supplier_rate", 2, 5_000, 1_250_000 * G),
        ("A", "residual_mix", 3, 1_000, 500_000 * G),
        ("B", "residual_mix", 4, 2_000, 120_000 * G),
    ]
    assert matching.totals().emission_ug == 1_870_000 * G
    assert matching.totals("B").emission_ug == 120_000 * G


@BOTH
def test_certificates_precede_contracts_and_supplier_rates(edition: RuleEdition) -> None:
    matching = run(
        edition,
        {"A": flat(1, range(100))},
        [
            instrument(1, 40, kind=InstrumentKind.TARIFF, g=300, hours=(0, 100)),
            instrument(2, 40, kind=InstrumentKind.PPA, g=20, hours=(0, 100)),
            instrument(3, 10, kind=InstrumentKind.OWN_SOLAR, hours=(0, 100)),
            instrument(4, 40, kind=InstrumentKind.I_REC, hours=(0, 100)),
        ],
    )
    used = {number: mj / KWH for number, mj in matching.used_mj.items()}
    assert used == pytest.approx({1: 10, 2: 40, 3: 10, 4: 40})
    assert MarketRule.MISSING_FACTOR not in matching.totals().by_rule
    profiles = {line.profile for line in matching.lines}
    flat_or_stated = VolumeProfile.STATED if edition == IN_FORCE else VolumeProfile.FLAT_VINTAGE
    assert profiles == {flat_or_stated}


def test_volume_beyond_the_consumption_has_no_effect() -> None:
    matching = run(IN_FORCE, {"A": flat(1, range(10))}, [instrument(1, 1_000)])
    assert matching.used_mj == {1: 10 * KWH}
    assert matching.available_mj == {1: 1_000 * KWH}
    assert matching.totals().emission_ug == 0


def test_without_a_residual_mix_the_grid_average_applies_only_in_2015() -> None:
    rates = {"A": ZoneRates(grid=GRID)}
    in_force = run(IN_FORCE, {"A": flat(1)}, rates=rates)
    assert energies(in_force) == {"grid_average": 8_760}
    draft = run(DRAFT, {"A": flat(1)}, rates=rates)
    assert energies(draft) == {"missing_factor": 8_760}
    assert (draft.totals().emission_ug, draft.totals().missing_mj) == (0, 8_760 * KWH)
    assert {line.emission_ug for line in draft.lines} == {None}
    fossil = {"A": ZoneRates(fossil=mix(850), grid=GRID)}
    assert energies(run(DRAFT, {"A": flat(1)}, rates=fossil)) == {"fossil_factor": 8_760}
    assert energies(run(IN_FORCE, {"A": flat(1)}, rates=fossil)) == {"grid_average": 8_760}


@BOTH
def test_energy_without_a_zone_has_no_factor(edition: RuleEdition) -> None:
    matching = run(edition, {"": flat(1, range(5))}, [instrument(1, 5)])
    assert energies(matching) == {"missing_factor": 5}
    assert matching.excluded == {1: Exclusion.OTHER_MARKET}


def test_a_finer_granularity_limits_the_coverage_in_2015() -> None:
    use = flat(1, range(31 * 24))  # January only
    year = run(IN_FORCE, {"A": use}, [instrument(1, 8_760)])
    month = run(IN_FORCE, {"A": use}, [instrument(1, 8_760, by=Granularity.MONTH)])
    assert year.used_mj == month.used_mj == {1: 744 * KWH}
    half = run(IN_FORCE, {"A": use}, [instrument(1, 4_380, by=Granularity.MONTH)])
    assert half.used_mj == {1: 372 * KWH}
    [line] = [line for line in half.lines if line.rule == MarketRule.CERTIFICATE]
    assert (line.from_hour, line.to_hour) == (YEAR.months[0], YEAR.months[1])
    assert line.profile == VolumeProfile.FLAT_VINTAGE
    hour = run(
        IN_FORCE,
        {"A": use},
        [instrument(1, by=Granularity.HOUR, hourly_kwh=[5, 0, 0.5], hours=(0, 3))],
    )
    assert hour.used_mj == {1: KWH + KWH // 2}


def test_an_annual_certificate_leaves_a_proportional_rest_for_an_hourly_contract() -> None:
    contract = instrument(
        2, kind=InstrumentKind.PPA, by=Granularity.HOUR, hourly_kwh=[9, 9], hours=(0, 2)
    )
    use = {YEAR.from_hour: 4 * KWH, YEAR.from_hour + 1: 2 * KWH, YEAR.from_hour + 2: 2 * KWH}
    matching = run(IN_FORCE, {"A": use}, [instrument(1, 4), contract])
    assert matching.used_mj == {1: 4 * KWH, 2: 3 * KWH}
    assert energies(matching)["missing_factor"] == 1


def test_a_market_of_several_zones_and_those_inside_it() -> None:
    use = {"A-1": flat(1, range(10)), "A-2": flat(3, range(10)), "B": flat(1, range(10))}
    matching = run(IN_FORCE, use, [instrument(1, 20, market="A")])
    assert {line.zone: line.energy_mj // KWH for line in matching.lines if line.instrument_id} == {
        "A-1": 5,
        "A-2": 15,
    }
    wide = run(IN_FORCE, use, [instrument(1, 20, market="A B"), instrument(2, 10, market="B")])
    assert wide.used_mj == {1: 20 * KWH, 2: 10 * KWH}


def test_the_draft_needs_a_plant_in_the_grid_zone() -> None:
    use = {"A-1": flat(1, range(10)), "A-2": flat(1, range(10))}
    inside = instrument(1, 20, market="A B", plant="A-1", hours=(0, 10))
    matching = run(DRAFT, use, [inside])
    assert {line.zone for line in matching.lines if line.instrument_id} == {"A-1"}
    assert matching.used_mj == {1: 10 * KWH}
    excluded = run(
        DRAFT,
        use,
        [
            instrument(1, 20, market="A B", plant="B"),
            instrument(2, 20, market="A B", plant=""),
            instrument(3, kind=InstrumentKind.TARIFF),
            instrument(4, 20, market="B"),
        ],
    )
    assert excluded.excluded == {
        1: Exclusion.OUTSIDE_BOUNDARY,
        2: Exclusion.UNKNOWN_BOUNDARY,
        3: Exclusion.NO_VOLUME,
        4: Exclusion.OTHER_MARKET,
    }
    assert excluded.used_mj == {}


def test_a_tariff_without_a_limit_covers_the_rest_of_its_days() -> None:
    tariff = instrument(1, kind=InstrumentKind.TARIFF, g=100, hours=(24, 48))
    matching = run(IN_FORCE, {"A": flat(1, range(72))}, [tariff, instrument(2, 36)])
    assert matching.used_mj == {1: 12 * KWH, 2: 36 * KWH}
    assert matching.available_mj == {2: 36 * KWH}
    assert energies(matching)["missing_factor"] == 24


def test_a_vintage_over_two_years_counts_with_the_part_of_the_year() -> None:
    matching = run(IN_FORCE, {"A": flat(1)}, [instrument(1, 200, hours=(-50, 150))])
    assert matching.used_mj == {1: 150 * KWH}
    assert run(IN_FORCE, {"A": flat(1)}, [instrument(1, 200, hours=(-50, -1))]).used_mj == {1: 0}


@BOTH
def test_upstream_emissions_are_added_on_the_lifecycle_basis(edition: RuleEdition) -> None:
    rates = {
        "A": ZoneRates(residual_mix=mix(700), upstream_ug_per_kwh=40 * G),
        "B": ZoneRates(residual_mix=mix(500), upstream_ug_per_kwh=None),
    }
    known = run(edition, {"A": flat(1, range(10))}, [instrument(1, 5, hours=(0, 10))], rates)
    assert known.totals().upstream_ug == 400 * G
    assert known.totals().emission_ug == (5 * 700 + 400) * G
    assert known.totals().is_comparable
    unknown = run(edition, {"B": flat(1, range(10))}, [], rates).totals()
    assert (unknown.emission_ug, unknown.incomparable_mj) == (5_000 * G, 10 * KWH)
    assert not unknown.is_comparable


def test_a_grid_average_has_its_upstream_part_inside() -> None:
    rates = {"A": ZoneRates(grid=GRID, upstream_ug_per_kwh=None)}
    totals = run(IN_FORCE, {"A": flat(1, range(10))}, [], rates).totals()
    assert (totals.emission_ug, totals.upstream_ug, totals.is_comparable) == (3_290 * G, 0, True)


@BOTH
def test_negative_energy_is_never_covered(edition: RuleEdition) -> None:
    """Inner meters above the outer one are a finding, and stay in the sum."""
    use = {"A": {YEAR.from_hour: 10 * KWH, YEAR.from_hour + 1: -4 * KWH}}
    rates = {"A": ZoneRates(residual_mix=mix(100))}
    matching = run(edition, use, [instrument(1, 8_760_000)], rates)
    covered = 6 if edition == IN_FORCE else 10
    assert matching.used_mj == {1: covered * KWH}
    assert matching.totals().emission_ug == (6 - covered) * 100 * G
    hourly = instrument(2, by=Granularity.HOUR, kind=InstrumentKind.PPA, hourly_kwh=[0, 1])
    assert run(IN_FORCE, use, [instrument(1, 8_760_000), hourly], rates).used_mj == {
        1: 6 * KWH,
        2: 0,
    }
    only_negative = run(edition, {"A": {YEAR.from_hour: -KWH}}, [instrument(1, 8_760)], rates)
    assert only_negative.used_mj == {1: 0}
    assert only_negative.totals().covered_ppm is None


def test_no_consumption_has_no_lines() -> None:
    matching = run(IN_FORCE, {}, [instrument(1, 5)])
    assert matching.lines == []
    assert matching.totals().covered_ppm is None
