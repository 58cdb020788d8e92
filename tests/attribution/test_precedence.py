"""Who is charged: the table of precedence, and that the stretches cover all time exactly once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.attribution.precedence import (
    Claimed,
    PlacementSpan,
    Rule,
    Span,
    Use,
    namespace_of,
    spans,
    user_and_program,
)
from apps.core.units import END_HOUR

NODE, OTHER_NODE, SITE, OTHER_SITE = 1, 2, 11, 12
ALICE = Use("proc", NODE, os_user="alice", command=("python3",))
JOB = Use(
    "job", NODE, os_user="alice", cluster="hpc", account="vision", command=("/home/alice/train.py",)
)
POD = Use("pod", NODE, cluster="k8s", namespace="nlp")
STOOD = [PlacementSpan(0, END_HOUR, SITE)]

BY_USER = Rule(1, os_user="alice", project_id=101)
BY_USER_HERE = Rule(2, os_user="alice", node_id=NODE, project_id=102)
BY_NODE = Rule(3, node_id=NODE, project_id=103)
BY_SITE = Rule(4, site_id=SITE, project_id=104)
BY_ACCOUNT = Rule(5, account="vision", project_id=105)
BY_ACCOUNT_THERE = Rule(6, account="vision", cluster="hpc", project_id=106)
BY_NAMESPACE = Rule(7, namespace="nlp", project_id=107)
BY_PATH = Rule(8, path_prefix="/home/alice/", project_id=108)
PERSON = Rule(9, os_user="alice", person_id=201)
LATER = Rule(10, os_user="alice", project_id=110, from_hour=500)
ELSEWHERE = Rule(11, node_id=OTHER_NODE, project_id=111)


@pytest.mark.parametrize(
    ("use", "rules", "project", "way"),
    [
        (ALICE, [], None, ""),
        (ALICE, [BY_USER], 101, "user"),
        (ALICE, [BY_USER, BY_USER_HERE], 102, "place"),
        (ALICE, [BY_USER, BY_NODE], 103, "place"),
        (ALICE, [BY_NODE, BY_USER_HERE], 102, "place"),
        (ALICE, [BY_SITE, BY_NODE], 103, "place"),
        (ALICE, [BY_SITE, BY_USER], 104, "place"),
        (ALICE, [BY_ACCOUNT], None, ""),
        (JOB, [BY_ACCOUNT, BY_USER_HERE, BY_USER], 105, "account"),
        (JOB, [BY_ACCOUNT, BY_ACCOUNT_THERE], 106, "account"),
        (JOB, [BY_PATH, BY_USER], 108, "place"),
        (JOB, [BY_PATH, BY_ACCOUNT], 105, "account"),
        (POD, [BY_NAMESPACE, BY_NODE], 107, "account"),
        (POD, [BY_ACCOUNT, BY_NODE], 103, "place"),
        (ALICE, [ELSEWHERE], None, ""),
        (ALICE, [ELSEWHERE, BY_USER], 101, "user"),
        (Use("unknown", NODE), [BY_USER, BY_NODE], 103, "place"),
        (Use("proc", NODE, os_user="bob"), [BY_USER, BY_USER_HERE], None, ""),
    ],
)
def test_the_table_of_precedence(
    use: Use, rules: list[Rule], project: int | None, way: str
) -> None:
    for order in (rules, rules[::-1]):
        [span] = spans(use, rules=order, claims=[], placements=STOOD)
        assert (span.project_id, span.way) == (project, way)


def test_a_claim_beats_every_rule_and_the_runs_own_word_beats_the_claim() -> None:
    claim = Claimed(1, 100, 200, 300)
    rules = [BY_ACCOUNT_THERE, BY_USER_HERE]
    found = spans(JOB, rules=rules, claims=[claim], placements=STOOD)
    assert [(s.from_hour, s.to_hour, s.project_id, s.way) for s in found] == [
        (0, 100, 106, "account"),
        (100, 200, 300, "claim"),
        (200, END_HOUR, 106, "account"),
    ]
    named = Use("run", NODE, os_user="alice", account="vision", project_id=999)
    [span] = spans(named, rules=rules, claims=[claim], placements=STOOD)
    assert (span.project_id, span.way) == (999, "explicit")


def test_the_claim_made_last_holds_and_one_on_another_node_does_not() -> None:
    claims = [
        Claimed(1, 0, 10, 301),
        Claimed(2, 5, 10, 302),
        Claimed(3, 0, 10, 303, node_id=OTHER_NODE),
    ]
    found = spans(ALICE, rules=[], claims=claims, placements=[])
    assert [(s.to_hour, s.project_id) for s in found] == [(5, 301), (10, 302), (END_HOUR, None)]


def test_person_and_project_are_looked_for_apart() -> None:
    [span] = spans(ALICE, rules=[PERSON, BY_NODE], claims=[], placements=STOOD)
    assert (span.project_id, span.person_id, span.rule_id) == (103, 201, 3)
    [span] = spans(ALICE, rules=[PERSON], claims=[], placements=STOOD)
    assert (span.project_id, span.person_id, span.way, span.rule_id) == (None, 201, "", 9)
    [span] = spans(
        Use("run", NODE, os_user="alice", person_id=7), rules=[PERSON], claims=[], placements=STOOD
    )
    assert span.person_id == 7


def test_of_two_alike_the_one_that_begins_later_holds_from_then_on() -> None:
    found = spans(ALICE, rules=[LATER, BY_USER], claims=[], placements=[])
    assert [(s.from_hour, s.project_id) for s in found] == [(0, 101), (500, 110)]


def test_a_site_rule_follows_the_node_from_site_to_site() -> None:
    moved = [PlacementSpan(0, 50, SITE), PlacementSpan(50, END_HOUR, OTHER_SITE)]
    found = spans(ALICE, rules=[BY_SITE, BY_USER], claims=[], placements=moved)
    assert [(s.from_hour, s.project_id) for s in found] == [(0, 104), (50, 101)]


@pytest.mark.parametrize(
    ("key", "found"),
    [
    ("proc:alice/python3", ("alice", "python3")), ("proc:-/python3", ("", "python3")),
    ("proc:a/b/c", ("a", "b/c")), ("idle", ("", "")),
    ("container:ana/4f0ad1c2b3d4e5", ("ana", "container 4f0ad1c2b3d4")),
    ("container:4f0a", ("", "")), ("run:x", ("", "")),
],
)  # fmt: skip
def test_user_and_program_of_a_key(key: str, found: tuple[str, str]) -> None:
    assert user_and_program(key) == found


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("pod:c/ns/p", ("c", "ns")),
        ("pod:c/-/uid", ("c", "")),
        ("pod:c", ("", "")),
        ("job:c/1", ("", "")),
    ],
)
def test_namespace_of_a_key(key: str, found: tuple[str, str]) -> None:
    assert namespace_of(key) == found


HOURS = 12
hours = st.integers(0, HOURS - 1)
texts = st.sampled_from(["", "alice", "bob"])


@st.composite
def intervals(draw: st.DrawFn) -> tuple[int, int]:
    start = draw(hours)
    return start, draw(st.one_of(st.integers(start + 1, HOURS), st.just(END_HOUR)))


@st.composite
def rule_sets(draw: st.DrawFn) -> list[Rule]:
    rules = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        start, end = draw(intervals())
        rules.append(
            Rule(
                number,
                start,
                end,
                node_id=draw(st.sampled_from([None, NODE, OTHER_NODE])),
                site_id=draw(st.sampled_from([None, SITE, OTHER_SITE])),
                os_user=draw(texts),
                account=draw(st.sampled_from(["", "vision"])),
                project_id=draw(st.sampled_from([None, 1, 2])),
                person_id=draw(st.sampled_from([None, 7])),
            )
        )
    return rules


@given(
    rules=rule_sets(),
    claims=st.lists(intervals(), max_size=3),
    moves=st.lists(hours, max_size=3, unique=True),
    account=st.sampled_from(["", "vision"]),
    explicit=st.sampled_from([None, 5]),
)
def test_every_hour_is_charged_once_and_as_an_hour_by_hour_oracle_says(
    rules: list[Rule],
    claims: list[tuple[int, int]],
    moves: list[int],
    account: str,
    explicit: int | None,
) -> None:
    use = Use("run", NODE, os_user="alice", account=account, project_id=explicit)
    claimed = [Claimed(i, start, end, 100 + i) for i, (start, end) in enumerate(claims)]
    edges = [0, *sorted(hour for hour in moves if hour), END_HOUR]
    placements = [
        PlacementSpan(a, b, (SITE, OTHER_SITE)[i % 2]) for i, (a, b) in enumerate(pairwise(edges))
    ]
    found = spans(use, rules=rules, claims=claimed, placements=placements)
    assert found[0].from_hour == 0
    assert found[-1].to_hour == END_HOUR
    assert all(a.to_hour == b.from_hour for a, b in pairwise(found))
    assert all(_said(a) != _said(b) for a, b in pairwise(found))
    for hour in range(HOURS + 1):
        [span] = [each for each in found if each.from_hour <= hour < each.to_hour]
        assert (span.project_id, span.way, span.person_id) == _oracle(
            use, rules, claimed, placements, hour
        )


def _said(span: Span) -> tuple[object, ...]:
    return span.project_id, span.person_id, span.way, span.rule_id, span.claim_id


def _oracle(
    use: Use, rules: list[Rule], claims: list[Claimed], placements: list[PlacementSpan], hour: int
) -> tuple[int | None, str, int | None]:
    """The rule of precedence once more, written as the documents have it."""
    site = next(each.site_id for each in placements if each.from_hour <= hour < each.to_hour)
    holding = [
        r
        for r in rules
        if r.from_hour <= hour < r.to_hour
        and r.node_id in (None, NODE)
        and r.site_id in (None, site)
    ]
    holding = [
        r for r in holding if r.os_user in ("", use.os_user) and r.account in ("", use.account)
    ]
    by_account = [r for r in holding if r.account]
    at_place = [r for r in holding if not r.account and (r.node_id or r.site_id)]
    by_user = [r for r in holding if not r.account and not r.node_id and not r.site_id]

    def first(target: str) -> Rule | None:
        for group in (by_account, at_place, by_user):
            able = [r for r in group if getattr(r, target)]
            if able:
                return max(
                    able,
                    key=lambda r: (
                        sum(bool(x) for x in (r.node_id, r.site_id, r.os_user, r.account)),
                        bool(r.node_id),
                        r.from_hour,
                        r.id,
                    ),
                )
        return None

    person = first("person_id")
    person_id = person.person_id if person else None
    if use.project_id:
        return use.project_id, "explicit", person_id
    covering = [claim for claim in claims if claim.from_hour <= hour < claim.to_hour]
    if covering:
        return covering[-1].project_id, "claim", person_id
    rule = first("project_id")
    if rule is None:
        return None, "", person_id
    way = "account" if rule in by_account else "place" if rule in at_place else "user"
    return rule.project_id, way, person_id
