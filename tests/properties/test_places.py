"""Any history of energy, moves, zones and PUE: dated facts change no hour before them, and their
order does not matter.
"""

import itertools
import uuid
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.carbon.factors import priced_with, zone_factors
from apps.carbon.figures.energy import entries, figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.models import AppliedFactor, EmissionFactor
from apps.carbon.services import apply_factors
from apps.core.errors import Conflict
from apps.core.jobs import run_until_idle
from apps.core.units import emission_ug, facility_mj
from apps.energy.services.ledger import rebuild_ledger
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node, Placement, Site, SitePue, SiteZone
from apps.fleet.selectors import stays_of
from apps.fleet.services import (
    create_site,
    move_node,
    register_node,
    set_pue,
    set_static_power,
    set_zone,
    undo_move,
    withdraw_site_fact,
)
from tests.builders import T0, SmallLab, push, small_lab
from tests.examples import examples
from tests.properties.histories import (
    HOUR_US,
    SENT,
    Sent,
    accept_moves,
    all_rows,
    histories,
    undone,
)

pytestmark = pytest.mark.django_db
HOUR = T0 // HOUR_US
ZONES = ("DE", "FR", "NO", "PL")


@dataclass(frozen=True)
class Fact:
    """A dated fact: a node moves, or a site changes its zone or PUE. ``subject`` numbers the
    node or the site.
    """

    kind: str
    subject: int
    hour: int
    value: int


@dataclass(frozen=True)
class World:
    """Two nodes and three sites, one of them without a zone."""

    small: SmallLab
    nodes: list[Node]
    sites: list[Site]


FACTS = st.one_of(
    st.builds(
        Fact,
        st.just("move"),
        st.integers(0, 1),
        st.integers(HOUR - 5, HOUR + 60),
        st.integers(0, 2),
    ),
    st.builds(
        Fact,
        st.just("zone"),
        st.integers(0, 1),
        st.integers(HOUR - 5, HOUR + 60),
        st.integers(0, 3),
    ),
    st.builds(
        Fact,
        st.just("pue"),
        st.integers(0, 2),
        st.integers(HOUR - 5, HOUR + 60),
        st.integers(10**6, 3 * 10**6),
    ),
)
# One fact for each thing and hour: two at once contradict each other, and the second is refused.
HISTORIES = st.lists(FACTS, max_size=8, unique_by=lambda fact: (fact.kind, fact.subject, fact.hour))


def world() -> World:
    small = small_lab()
    other = register_node(
        lab=small.lab, uuid=uuid.uuid4(), hostname="ws-2", facts={}, site=small.site, now=T0
    )
    room = create_site(
        lab=small.lab, name="Room 2", kind=SiteKind.MACHINE_ROOM, zone="FR", pue_ppm=1_333_333
    )
    nowhere = create_site(lab=small.lab, name="Nowhere", kind=SiteKind.MACHINE_ROOM, zone="")
    set_static_power(node=small.node, static_power_mw=77_777)
    run_until_idle(worker="test")
    return World(small, [small.node, other], [small.site, room, nowhere])


def record(there: World, fact: Fact) -> Placement | SiteZone | SitePue:
    told = {"from_us": fact.hour * HOUR_US, "by": there.small.owner, "now": T0}
    if fact.kind == "move":
        return move_node(node=there.nodes[fact.subject], site=there.sites[fact.value], **told)
    site = there.sites[fact.subject]
    if fact.kind == "zone":
        return set_zone(site=site, zone=ZONES[fact.value], **told)
    return set_pue(site=site, pue_ppm=fact.value, **told)


def deliver(there: World, sent: list[Sent]) -> None:
    for number, node in enumerate(there.nodes):
        windows = [one.window for one in sent if one.node == number]
        if windows:
            push(node, windows, sent_at=SENT, settle=False)


Priced = tuple[int, str, str, str, int, int, int, int | None, int | None]


def priced(there: World) -> list[Priced]:
    """Return every ledger entry as a figure sums it: hour, node, device, consumer, qualities,
    mJ, facility mJ, µg.
    """
    query = FigureQuery(metric="emission_ug", from_hour=0, to_hour=HOUR + 2000)
    found = [
        (
            row["hour"],
            row["hostname"],
            row["device"],
            row["consumer"],
            row["share_quality"],
            row["placement_quality"],
            row["energy_mj"],
            row["facility_energy_mj"],
            row["emission_ug"],
        )
        for row in entries(there.small.lab, query)
    ]
    return sorted(found, key=lambda row: row[:7])


def expected(there: World, facts: list[Fact], row: Priced) -> tuple[int, int | None]:
    """Return facility mJ and µg of an entry, looked up fact by fact: slow and obvious."""
    hour, energy_mj = row[0], row[6]
    number = [node.hostname for node in there.nodes].index(row[1])

    def latest(kind: str, subject: int, first: int | None) -> int | None:
        begun = [
            fact
            for fact in facts
            if (fact.kind, fact.subject) == (kind, subject) and fact.hour <= hour
        ]
        return max(begun, key=lambda fact: fact.hour).value if begun else first

    site = latest("move", number, 0)
    assert site is not None
    pue_ppm = latest("pue", site, (1_000_000, 1_333_333, 1_560_000)[site])
    assert pue_ppm is not None
    zone = latest("zone", site, (0, 1, None)[site])
    if zone is None:
        return facility_mj(energy_mj, pue_ppm), None
    year = 2025  # the latest there is for 2026
    factor = EmissionFactor.objects.get(lab=None, zone=ZONES[zone], year=year, superseded_us=None)
    return facility_mj(energy_mj, pue_ppm), emission_ug(energy_mj, pue_ppm, factor.ug_per_kwh)


def test_every_entry_is_priced_by_what_held_at_its_node_in_its_hour() -> None:
    there = world()

    @settings(max_examples=examples(40))
    @given(histories(2), HISTORIES)
    def check(sent: list[Sent], facts: list[Fact]) -> None:
        with undone():
            deliver(there, sent)
            for fact in facts:
                record(there, fact)
            run_until_idle(worker="test")
            for row in priced(there):
                assert row[7:] == expected(there, facts, row), row
            for node in there.nodes:
                stays = stays_of(node)
                assert (stays[0].from_hour, stays[-1].to_hour) == (0, None)
                assert all(
                    one.to_hour == other.from_hour for one, other in itertools.pairwise(stays)
                )

    check()


def test_a_dated_fact_changes_no_figure_of_an_hour_before_it() -> None:
    there = world()

    @settings(max_examples=examples(40))
    @given(histories(2), HISTORIES, FACTS)
    def check(sent: list[Sent], facts: list[Fact], last: Fact) -> None:
        with undone():
            deliver(there, sent)
            for fact in facts:
                record(there, fact)
            run_until_idle(worker="test")
            before = priced(there)
            try:
                made = record(there, last)
            except Conflict:
                return
            run_until_idle(worker="test")
            after = priced(there)
            assert [row[:7] for row in after] == [row[:7] for row in before], (
                "energy is never touched"
            )
            assert [row for row in after if row[0] < last.hour] == [
                row for row in before if row[0] < last.hour
            ]
            later = [
                fact
                for fact in facts
                if (fact.kind, fact.subject) == (last.kind, last.subject) and fact.hour > last.hour
            ]
            if not later:  # it is the latest: withdrawing it gives everything back
                if isinstance(made, Placement):
                    undo_move(placement=made, by=there.small.owner, now=T0)
                else:
                    withdraw_site_fact(fact=made, by=there.small.owner, now=T0)
                run_until_idle(worker="test")
                assert priced(there) == before

    check()


def test_the_order_of_entering_does_not_matter_and_a_rebuild_changes_nothing() -> None:
    there = world()

    def outcome(steps: list[Sent | Fact], settle: list[bool]) -> list[Priced]:
        with undone():
            for i, step in enumerate(steps):
                if isinstance(step, Fact):
                    record(there, step)
                else:
                    push(
                        there.nodes[step.node],
                        [step.window],
                        sent_at=SENT,
                        settle=settle[i % len(settle)],
                    )
            run_until_idle(worker="test")
            accept_moves()
            found, remaining_energy = priced(there), all_rows()
            derived = sorted(
                AppliedFactor.objects.values_list(
                    "node_id", "from_hour", "to_hour", "pue_ppm", "factor_id"
                )
            )
            rebuild_ledger(lab=there.small.lab)
            run_until_idle(worker="test")
            apply_factors(lab=there.small.lab)
            assert (priced(there), all_rows()) == (found, remaining_energy)
            again = AppliedFactor.objects.values_list(
                "node_id", "from_hour", "to_hour", "pue_ppm", "factor_id"
            )
            assert sorted(again) == derived
            return found

    @settings(max_examples=examples(25))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        steps: list[Sent | Fact] = [*data.draw(histories(2)), *data.draw(HISTORIES)]
        ways = [data.draw(st.permutations(steps)) for _ in range(2)]
        assert outcome(ways[0], [True]) == outcome(ways[1], [False, True, False])

    check()


def test_what_would_be_is_what_comes_out() -> None:
    """The figure shown before a fact is recorded is, to the microgram, the figure after it."""
    from apps.carbon.figures.factor_spans import spans_by_node
    from apps.core.units import END_HOUR
    from apps.dashboard.nodes.change_preview import site_facts_after

    there = world()
    lab = there.small.lab

    @settings(max_examples=examples(25))
    @given(histories(2), HISTORIES, FACTS)
    def check(sent: list[Sent], facts: list[Fact], last: Fact) -> None:
        with undone():
            deliver(there, sent)
            for fact in facts:
                record(there, fact)
            run_until_idle(worker="test")
            before = priced(there)
            try:
                places = site_facts_after(lab, lambda: record(there, last))
            except Conflict:
                return
            assert priced(there) == before
            spans = spans_by_node(
                places, zone_factors(lab, places), [node.pk for node in there.nodes], END_HOUR
            )
            told = priced_with(lab, spans, HOUR, HOUR + 500)
            record(there, last)
            run_until_idle(worker="test")
            query = FigureQuery(metric="emission_ug", from_hour=HOUR, to_hour=HOUR + 500)
            found = {key: part for (key,), part in figures_by(lab, query, ["node"]).items()}
            assert {
                str(node.uuid): told[node.pk] for node in there.nodes if node.pk in told
            } == found
            assert sum(part.emission_ug for part in told.values()) == figure(lab, query).emission_ug

    check()
