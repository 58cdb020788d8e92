"""Many changes before one rollup: each is one span, and a query has a limited depth."""

import pytest

from apps.carbon.choices import RollupKind
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.models import StaleSpan
from apps.carbon.rollups import writer
from tests.builders import SmallLab
from tests.carbon.test_own_factors import HOURS, small
from tests.carbon.test_rolled_days_history import H0, NOW

__all__ = ["small"]  # a fixture
pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("gap", [1, 3])
def test_thousands_of_spans_are_rolled_up(small: SmallLab, gap: int) -> None:
    query = FigureQuery("energy_mj", H0, H0 + HOURS, basis=small.lab.basis)
    before = figure(small.lab, query)
    StaleSpan.objects.bulk_create(
        StaleSpan(lab=small.lab, what=RollupKind.USE, from_hour=hour, to_hour=hour + 1)
        for hour in range(H0 - 3000 * gap, H0 + 100, gap)
    )
    done, total = writer.count_days(small.lab, RollupKind.USE, H0, H0 + HOURS, NOW)
    assert (done, total > 0) == (0, True)
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert not StaleSpan.objects.exists()
    done, total = writer.count_days(small.lab, RollupKind.USE, H0, H0 + HOURS, NOW)
    assert done == total
    assert figure(small.lab, query) == before
