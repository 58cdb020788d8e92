"""A figure of hardware is the sum of its parts and rows, over any lives: the same integers as
Python, on both databases.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apps.accounts.services.labs import create_project
from apps.assets.amortisation import Charge, Metered, Spread, Use, charges, embodied_total_ug
from apps.assets.choices import ChargeKind, EventKind
from apps.assets.lifecycle import Event, active_events
from apps.assets.models import Asset, EmbodiedCharge, LifecycleEvent
from apps.assets.services.recompute import differing
from apps.carbon.figures.combined import answer, group_figures, groups_of
from apps.carbon.figures.embodied import GROUPS, charge_rows, coverage, embodied, embodied_by
from apps.carbon.figures.embodied_rate import rate_at
from apps.carbon.figures.figure_query import ALLOCATION, HIDDEN, INVENTORY, FigureQuery
from apps.core.units import END_HOUR, US_PER_HOUR
from tests.builders import T0, SmallLab, small_lab
from tests.examples import examples
from tests.properties.histories import undone
from tests.properties.test_embodied import lives, metered_times, spreadings, timelines

pytestmark = pytest.mark.django_db
NOW = 2_000 * US_PER_HOUR
Lives = list[tuple[list[Event], list[Charge]]]


def written(
    lab: SmallLab, projects: list[int], found: Lives, reversals: list[int]
) -> list[list[Event]]:
    """Write lives with their charges; ``reversals`` are lengths of chains hung on the entries
    after the opening, in turn. Return the entries that stand.
    """
    result = []
    turn = iter(reversals)
    for i, (events, borne) in enumerate(found):
        asset = Asset.objects.create(lab=lab.lab, name=f"Thing {i}", kind="gpu", added_us=T0)
        remaining_energy: list[tuple[Event, int | None]] = []
        for event in events:
            row = _row(asset, event, projects)
            remaining_energy.append((_as(event, row.pk), None))
            tip = row
            for _ in range(0 if event is events[0] else next(turn, 0)):
                tip = LifecycleEvent.objects.create(
                    asset=asset,
                    kind=EventKind.REVERSAL,
                    hour=event.hour,
                    reverses=tip,
                    recorded_us=T0,
                )
                remaining_energy.append((_as(event, tip.pk), tip.reverses_id))
        result.append(active_events(remaining_energy))
        EmbodiedCharge.objects.bulk_create(
            EmbodiedCharge(
                lab=lab.lab,
                asset=asset,
                from_hour=one.from_hour,
                to_hour=one.to_hour,
                kind=one.kind,
                amount_ug=one.amount_ug,
                project_id=projects[one.project_id - 1] if one.project_id else None,
            )
            for one in borne
        )
    differing(lab=lab.lab, repair=True)
    return result


def _as(event: Event, pk: int) -> Event:
    return Event(**{**event.__dict__, "id": pk})


def _row(asset: Asset, event: Event, projects: list[int]) -> LifecycleEvent:
    return LifecycleEvent.objects.create(
        asset=asset,
        kind=event.kind,
        hour=event.hour,
        total_ug=event.total_ug,
        end_of_life_ug=event.end_of_life_ug,
        includes_end_of_life=event.includes_end_of_life,
        life_hours=event.life_hours,
        recorded_us=T0,
        project_id=projects[event.project_id - 1] if event.project_id else None,
    )


def _to_its_end(events: list[Event]) -> list[Event]:
    """Leave out what cannot be: entries after the disposal."""
    end = next(
        (i for i, event in enumerate(events) if event.kind == EventKind.DISPOSE), len(events)
    )
    return events[: end + 1]


@st.composite
def histories(draw: st.DrawFn) -> Lives:
    found = []
    for events in draw(st.lists(lives(), min_size=1, max_size=3)):
        own = _to_its_end(events)
        found.append(
            (own, charges(own, draw(timelines()), draw(spreadings()), metered=draw(metered_times)))
        )
    return found


def _narrowed(query: FigureQuery, charge: str) -> FigureQuery:
    if not charge.startswith("~"):
        return query.replace(subject_kind="project", subject_key=charge)
    return query.replace(project=HIDDEN, consumer="" if charge == "~lab" else charge[1:])


def test_parts_and_rows_sum_to_the_figure() -> None:
    lab = small_lab()
    projects = [
        create_project(lab=lab.lab, slug=slug, name=slug, now=T0).pk
        for slug in ("one", "two", "three")
    ]

    @settings(max_examples=examples(25))
    @given(
        histories(),
        st.integers(0, 800),
        st.integers(1, 900),
        st.lists(st.integers(0, 3), max_size=12),
    )
    def check(found: Lives, start: int, length: int, reversals: list[int]) -> None:
        with undone():
            placements = written(lab, projects, found, reversals)
            asked = FigureQuery(metric=ALLOCATION, from_hour=start, to_hour=start + length)
            expected = sum(one.within(start, start + length) for _, borne in found for one in borne)
            assert embodied(lab.lab, asked, NOW).embodied_ug == expected
            bought = asked.replace(metric=INVENTORY)
            assert embodied(lab.lab, bought, NOW).embodied_ug == sum(
                embodied_total_ug(events, start + length) - embodied_total_ug(events, start)
                for events in placements
            )
            for query in (asked, bought):
                whole = embodied(lab.lab, query, NOW)
                assert (
                    sum(row["part_ug"] for row in charge_rows(lab.lab, query, NOW))
                    == whole.embodied_ug
                )
                for group in GROUPS:
                    parts = embodied_by(lab.lab, query, [group], NOW)
                    assert sum(part.embodied_ug for part in parts.values()) == whole.embodied_ug, (
                        group
                    )
                    assert sum(part.entries for part in parts.values()) == whole.entries, group
                for (charge,), part in embodied_by(lab.lab, query, ["charge"], NOW).items():
                    assert embodied(lab.lab, _narrowed(query, charge), NOW) == part, charge
            edges = sorted({start, start + length // 3, start + length})
            pieces = [asked.replace(from_hour=low, to_hour=high) for low, high in pairwise(edges)]
            assert sum(embodied(lab.lab, piece, NOW).embodied_ug for piece in pieces) == expected
            for metric in (ALLOCATION, INVENTORY, "carbon_ug"):
                query = asked.replace(metric=metric)
                for group in groups_of(metric):
                    parts_of = group_figures(lab.lab, query, group, NOW)
                    assert sum(parts_of.values()) == answer(lab.lab, query, NOW).value, (
                        metric,
                        group,
                    )
            told = coverage(lab.lab, asked.replace(from_hour=0, to_hour=END_HOUR), NOW)
            assert (told.known, told.assets) == (len(found), len(found))

    check()


@given(lives(), timelines(), spreadings(), metered_times)
@example(
    [
        Event(1, 0, EventKind.PURCHASE, total_ug=4, life_hours=16),
        Event(4, 62, EventKind.DEPLOY),
        Event(3, 63, EventKind.REPURPOSE, life_end_hour=1),
        Event(2, 70, EventKind.DEPLOY),
    ],
    [],
    [],
    (),
)
@settings(max_examples=200)
def test_the_rate_that_is_told_gives_the_charges_of_time(
    events: list[Event], uses: list[Use], spreads: list[Spread], metered: Sequence[Metered]
) -> None:
    linear = [Event(**{**event.__dict__, "amortisation": ""}) for event in _to_its_end(events)]
    found = charges(linear, uses, spreads, metered=metered)
    pieces: dict[tuple[int, int], int] = defaultdict(int)
    for one in found:
        rate = rate_at(linear, found, one.from_hour)
        if rate is not None and one.kind not in (ChargeKind.WRITTEN_OFF, ChargeKind.END_OF_LIFE):
            pieces[one.from_hour, one.to_hour] += one.amount_ug
    for (start, end), amount in pieces.items():
        rate = rate_at(linear, found, start)
        assert rate is not None
        assert amount == rate.over(start, end)


def test_what_is_to_come_is_in_no_figure() -> None:
    lab = small_lab()
    borne = [Charge(10, 110, 1_000, None, "held")]
    with undone():
        written(
            lab,
            [],
            [([Event(1, 10, EventKind.PURCHASE, total_ug=1_000, life_hours=100)], borne)],
            [],
        )
        asked = FigureQuery(metric=ALLOCATION, from_hour=0, to_hour=500)
        for hour, value in ((9, 0), (10, 10), (59, 500), (109, 1_000), (400, 1_000)):
            assert embodied(lab.lab, asked, hour * US_PER_HOUR).embodied_ug == value
            assert embodied(lab.lab, asked, (hour + 1) * US_PER_HOUR - 1).embodied_ug == value
