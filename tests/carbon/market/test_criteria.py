"""Findings about exclusions and residual mixes."""

import pytest

from apps.carbon.market.choices import Exclusion
from apps.carbon.market.criteria import Criterion, check_exclusion, check_residual_mix


@pytest.mark.parametrize("exclusion", Exclusion)
def test_each_exclusion_is_a_finding(exclusion: Exclusion) -> None:
    finding = check_exclusion(exclusion)
    assert finding.code == exclusion.value
    assert finding.text
    assert finding.hint
    assert finding.criterion in (Criterion.MARKET, Criterion.HOURLY)


def test_a_missing_residual_mix_and_one_of_another_year_are_findings() -> None:
    assert [finding.code for finding in check_residual_mix(None, 2026)] == ["no_residual_mix"]
    assert [finding.code for finding in check_residual_mix(2025, 2026)] == [
        "residual_mix_of_another_year"
    ]
    assert check_residual_mix(2026, 2026) == []
