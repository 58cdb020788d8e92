"""Random histories of use, runs, rules, claims and moves: nothing is lost or doubled, and what
was derived step by step is what is derived from nothing."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.services.labs import create_project
from apps.attribution.models import Attribution, AttributionRule, Claim
from apps.attribution.precedence import ConsumerSpan, Span
from apps.attribution.services.derive import as_span, derive, rules_now
from apps.attribution.services.rules import (
    Criteria,
    claim,
    drafted_rule,
    end_rule,
    make_rule,
    restore_rule,
    undo_claim,
    withdraw_rule,
)
from apps.carbon.figures.energy import Figure, figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.dashboard.figures import total
from apps.ingest.models import Consumer
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.examples import examples

pytestmark = pytest.mark.django_db(transaction=True)
H0 = hour_of(T0)
RUN = uuid.UUID("00000000-0000-4000-8000-000000000001")
CONSUMERS = ("proc:alice/python3", "proc:bob/python3", f"run:{RUN}", "job:hpc/7", "idle", "unknown")
PROJECTS = ("vision", "nlp")

users = st.sampled_from(["", "alice", "bob"])
hour_offsets = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("push"), hour_offsets, st.sampled_from(CONSUMERS), st.integers(1, 10**6)),
    st.tuples(st.just("run"), st.sampled_from([None, *PROJECTS]), users),
    st.tuples(st.just("rule"), users, st.booleans(), st.sampled_from(PROJECTS), hour_offsets),
    st.tuples(st.just("end"), st.integers(0, 3), st.integers(1, 5)),
    st.tuples(st.just("withdraw"), st.integers(0, 3)),
    st.tuples(st.just("restore"), st.integers(0, 3)),
    st.tuples(
        st.just("claim"), st.sampled_from(CONSUMERS), hour_offsets, st.sampled_from(PROJECTS)
    ),
    st.tuples(st.just("undo"), st.integers(0, 3)),
)


class History:
    """A lab to which things happen."""

    def __init__(self) -> None:
        self.small: SmallLab = small_lab(name=f"Lab {uuid.uuid4().hex[:8]}")
        self.lab = self.small.lab
        self.projects = {
            slug: create_project(lab=self.lab, slug=slug, name=slug, now=T0) for slug in PROJECTS
        }
        self.sequence = 0
        self.pushed_mj = 0
        self.acts: list[uuid.UUID] = []

    def do(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0])(*step[1:])
        run_until_idle(worker="test")

    def push(self, offset: int, consumer: str, energy_mj: int) -> None:
        start = T0 + offset * US_PER_HOUR + self.sequence * MINUTE // 10
        window = W(
            "gpu:GPU-1",
            energy_mj,
            start,
            start + MINUTE // 10,
            self.sequence,
            ((consumer, energy_mj),),
            None,
            "nvml_power",
        )
        answers = push(
            self.small.node,
            [window],
            received_us=T0 + 8 * US_PER_HOUR,
            sent_at=T0 + 8 * US_PER_HOUR,
        )
        self.sequence += 1
        self.pushed_mj += energy_mj if answers == [["accepted"]] else 0

    def run(self, project: str | None, os_user: str) -> None:
        facts = RunFacts(
            name="r",
            started_us=T0,
            project=project,
            os_user=os_user,
            node_uuid=self.small.node.uuid,
        )
        put_run(lab=self.lab, uuid=RUN, facts=facts, by=None, bound_node=None)

    def rule(self, os_user: str, here: bool, project: str, offset: int) -> None:
        criteria = Criteria(node=self.small.node if here or not os_user else None, os_user=os_user)
        drafted = drafted_rule(
            lab=self.lab,
            criteria=criteria,
            project=self.projects[project],
            person=None,
            from_us=T0 + offset * US_PER_HOUR,
        )
        if not AttributionRule.objects.filter(
            lab=self.lab,
            os_user=os_user,
            node=criteria.node,
            project=drafted.project,
            from_hour=drafted.from_hour,
        ).exists():
            make_rule(rule=drafted, by=self.small.owner, now=T0)

    def _rule(self, number: int) -> AttributionRule | None:
        found = list(AttributionRule.objects.filter(lab=self.lab).order_by("pk"))
        return found[number % len(found)] if found else None

    def end(self, number: int, hours: int) -> None:
        rule = self._rule(number)
        if rule and rule.to_hour is None and rule.withdrawn_us is None:
            end_rule(rule=rule, at_us=(rule.from_hour + hours) * US_PER_HOUR, by=None, now=T0)

    def withdraw(self, number: int) -> None:
        if rule := self._rule(number):
            withdraw_rule(rule=rule, by=None, now=T0)

    def restore(self, number: int) -> None:
        if rule := self._rule(number):
            restore_rule(rule=rule, by=None, now=T0)

    def claim(self, consumer: str, offset: int, project: str) -> None:
        rows = list(Consumer.objects.filter(lab=self.lab, key=consumer))
        if rows:
            spans = [ConsumerSpan(row.pk, None, H0 + offset, H0 + offset + 2) for row in rows]
            self.acts.append(
                claim(lab=self.lab, spans=spans, project=self.projects[project], by=None, now=T0)
            )

    def undo(self, number: int) -> None:
        if self.acts:
            undo_claim(lab=self.lab, act=self.acts[number % len(self.acts)], by=None, now=T0)

    @property
    def query(self) -> FigureQuery:
        return FigureQuery(metric="energy_mj", from_hour=H0, to_hour=H0 + 24)

    def by_charge(self) -> dict[tuple[Any, ...], Figure]:
        return figures_by(self.lab, self.query, ["charge", "hour"])

    def from_nothing(self) -> dict[tuple[int, int], list[Span]]:
        pairs = set(
            Attribution.objects.filter(consumer__lab=self.lab).values_list("consumer_id", "node_id")
        )
        return derive(self.lab, pairs, rules_now(self.lab))

    def kept(self) -> dict[tuple[int, int], list[Span]]:
        found: dict[tuple[int, int], list[Span]] = {}
        for row in Attribution.objects.filter(consumer__lab=self.lab).order_by("from_hour"):
            found.setdefault((row.consumer_id, row.node_id), []).append(as_span(row))
        return found


@given(history=st.lists(steps, max_size=14))
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_step_by_step_is_from_nothing_and_no_joule_is_lost_or_doubled(
    history: list[tuple[Any, ...]],
) -> None:
    lab = History()
    for step in history:
        lab.do(step)
    assert lab.kept() == lab.from_nothing()
    whole = figure(lab.lab, lab.query)
    assert whole.energy_mj == lab.pushed_mj
    parts = lab.by_charge()
    assert total(parts.values()) == whole
    by_person = figures_by(lab.lab, lab.query, ["person"])
    assert total(by_person.values()) == whole


@given(before=st.lists(steps, max_size=8), consumer=st.sampled_from(CONSUMERS), offset=hour_offsets)
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_claiming_and_undoing_gives_identical_integers(
    before: list[tuple[Any, ...]], consumer: str, offset: int
) -> None:
    lab = History()
    for step in [("push", 1, consumer, 4321), *before]:
        lab.do(step)
    figures, rows = lab.by_charge(), lab.kept()
    lab.claim(consumer, offset, "vision")
    lab.undo(len(lab.acts) - 1)
    assert lab.by_charge() == figures
    assert lab.kept() == rows
    assert Claim.objects.filter(lab=lab.lab, undone_us__isnull=False).exists()


@given(
    before=st.lists(steps, max_size=8),
    os_user=st.sampled_from(["alice", "bob"]),
    offset=st.integers(1, 5),
)
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_rule_changes_no_hour_before_it(
    before: list[tuple[Any, ...]], os_user: str, offset: int
) -> None:
    lab = History()
    for step in [
        ("push", 0, f"proc:{os_user}/python3", 99),
        ("push", 5, f"proc:{os_user}/python3", 98),
        *before,
    ]:
        lab.do(step)
    figures = lab.by_charge()
    lab.do(("rule", os_user, True, "nlp", offset))
    after = lab.by_charge()
    early = {key: part for key, part in figures.items() if key[1] < H0 + offset}
    assert {key: part for key, part in after.items() if key[1] < H0 + offset} == early


def test_a_run_shows_who_is_charged_at_its_start() -> None:
    lab = History()
    lab.do(("rule", "alice", False, "vision", 0))
    lab.do(("run", None, "alice"))
    run = Run.objects.get(lab=lab.lab, uuid=RUN)
    assert (run.charged_project, run.attributed_by) == (lab.projects["vision"], "user")
    lab.do(("push", 1, f"run:{RUN}", 1000))
    lab.do(("claim", f"run:{RUN}", 0, "nlp"))
    run.refresh_from_db()
    assert (run.charged_project, run.attributed_by) == (lab.projects["nlp"], "claim")
    lab.do(("run", "vision", "alice"))
    run.refresh_from_db()
    assert (run.charged_project, run.attributed_by) == (lab.projects["vision"], "explicit")
    assert set(lab.by_charge()) == {("vision", H0 + 1)}
