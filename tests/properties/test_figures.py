"""A figure is the sum of its parts, of its entries, and of what Python computes entry by entry."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.carbon.figures.energy import GROUPS, entries, factors_used, figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.jobs import run_until_idle
from apps.core.units import emission_ug, facility_mj
from apps.fleet.services import correct_zone, set_pue, set_static_power
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import T0, push, small_lab
from tests.examples import examples
from tests.properties.histories import HOUR_US, RUNS, SENT, Sent, histories, undone

pytestmark = pytest.mark.django_db
HOUR = T0 // HOUR_US
PERIODS = st.tuples(st.integers(HOUR - 10, HOUR + 40), st.integers(1, 400))


@pytest.mark.parametrize("zone", ["DE", "FR", ""])
def test_parts_and_entries_sum_to_the_figure(zone: str) -> None:
    small = small_lab(zone="DE")
    put_run(
        lab=small.lab,
        uuid=UUID(RUNS[0][4:]),
        facts=RunFacts(name="train.py", started_us=T0, project="demo"),
        by=small.owner,
        bound_node=None,
    )
    set_static_power(node=small.node, static_power_mw=80_001)
    set_pue(site=small.site, pue_ppm=1_234_567, from_us=T0 + 2 * HOUR_US)
    correct_zone(site=small.site, zone=zone, by=None, now=T0)
    run_until_idle(worker="test")

    @settings(max_examples=examples(20))
    @given(histories(), PERIODS)
    def check(sent: list[Sent], period: tuple[int, int]) -> None:
        with undone():
            push(small.node, [one.window for one in sent], sent_at=SENT)
            query = FigureQuery(
                metric="emission_ug", from_hour=period[0], to_hour=period[0] + period[1]
            )
            whole = figure(small.lab, query)
            listed = list(entries(small.lab, query))
            paged = [
                row
                for offset in range(0, len(listed), 7)
                for row in entries(small.lab, query, limit=7, offset=offset)
            ]
            assert paged == listed
            priced = [row for row in listed if row["factor_ug_per_kwh"] is not None]
            assert whole.energy_mj == sum(row["energy_mj"] for row in listed)
            assert whole.facility_energy_mj == sum(
                facility_mj(row["energy_mj"], row["pue_ppm"]) for row in listed
            )
            assert whole.emission_ug == sum(
                emission_ug(row["energy_mj"], row["pue_ppm"], row["factor_ug_per_kwh"])
                for row in priced
            )
            assert whole.without_factor_mj == whole.energy_mj - sum(
                row["energy_mj"] for row in priced
            )
            assert (whole.emission_ug == 0) or zone
            for name in GROUPS:
                parts = figures_by(small.lab, query, [name]).values()
                for metric in (
                    "energy_mj",
                    "facility_energy_mj",
                    "emission_ug",
                    "without_factor_mj",
                    "entries",
                ):
                    assert sum(getattr(part, metric) for part in parts) == getattr(whole, metric), (
                        name,
                        metric,
                    )
            assert (
                sum(part.emission_ug for _, _, part in factors_used(small.lab, query))
                == whole.emission_ug
            )
            charged = figures_by(small.lab, query, ["charge"])
            for (charge,), part in charged.items():
                narrow = (
                    query.replace(consumer=charge[1:])
                    if charge.startswith("~")
                    else query.replace(subject_kind="project", subject_key=charge)
                )
                assert figure(small.lab, narrow) == part

    check()
