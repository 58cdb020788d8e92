"""What nobody claimed: lines, claims with undo, and who may see whom."""

import re
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Lab, Membership, Project, User
from apps.accounts.services.labs import create_project
from apps.attribution.models import Claim
from apps.attribution.services.rules import Criteria, drafted_rule, make_rule
from apps.carbon.figures.energy import figures_by
from apps.core.jobs import run_until_idle
from apps.dashboard.periods import Period, lab_query
from apps.fleet.services import register_node
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOUR,
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    gpu,
    queries,
    text_of,
    without_secrets,
)

ADDRESS = f"/unattributed/?{PERIOD}"


def used(lab: SmallLab, who: list[str], *, first: int = 0) -> None:
    """Push a minute of each consumer."""
    push(
        lab.node,
        [
            W(
                gpu(),
                3_600_000,
                T0 + i * MINUTE,
                T0 + (i + 1) * MINUTE,
                i,
                ((key, 3_000_000), ("idle", 600_000)),
            )
            for i, key in enumerate(who, start=first)
        ],
    )


def by_charge(lab: SmallLab) -> dict[Any, Any]:
    period = Period(HOUR - 100, HOUR + 100, ZoneInfo("UTC"))
    return figures_by(lab.lab, lab_query(lab.lab, period), ["charge", "hour"])


def member(lab: SmallLab, name: str, role: Role) -> tuple[User, Client]:
    user = User.objects.create_user(username=name)
    Membership.objects.create(lab=lab.lab, user=user, role=role)
    return user, client_of(user)


def test_lines_by_user_and_program_sum_to_the_headline_and_explain_themselves(
    lab: SmallLab, owner: Client
) -> None:
    used(
        lab,
        ["proc:ada/python3", "proc:ada/python3", "proc:ben/python3", "proc:ada/ffmpeg", "unknown"],
    )
    page = text_of(owner.get(ADDRESS))
    assert page.count('name="item"') == 4
    assert "<title>Unattributed energy" in page
    assert assert_each_figure_explains_itself(owner, page) >= 14
    values = [
        int(v)
        for q, v in re.findall(
            r'data-figure="([^"]*metric=energy_mj[^"]*)" data-value="(\d+)"', page
        )
        if "os_user" in q
    ]
    assert sorted(set(values)) == [3_000_000, 6_000_000]
    assert sum(values) // 2 == 15_000_000  # each line: its energy, and its share


def test_claiming_moves_exactly_that_and_undo_gives_identical_integers(
    lab: SmallLab, owner: Client
) -> None:
    used(lab, ["proc:ada/python3", "proc:ben/python3"])
    before = by_charge(lab)
    answer = owner.post(ADDRESS, {"item": ["ada\tpython3"], "project": "demo"})
    assert answer.status_code == 302
    after = by_charge(lab)
    assert after["demo", HOUR].energy_mj == 3_000_000
    assert after["~unattributed", HOUR].energy_mj == 3_000_000
    page = text_of(owner.get(answer["Location"]))
    assert re.search(r"0\.833.Wh, ", page)
    assert "claimed for Demo" in page
    act = Claim.objects.get().act
    assert f'action="/claims/{act}/"' in page
    assert owner.post(f"/claims/{act}/").status_code == 302
    assert by_charge(lab) == before
    owner.post(f"/claims/{act}/", {"action": "redo"})
    assert by_charge(lab) == after


def test_nodes_of_the_same_name_are_both_counted(lab: SmallLab, owner: Client) -> None:
    twin = register_node(
        lab=lab.lab, uuid=uuid4(), hostname=lab.node.hostname, facts={}, site=lab.site, now=T0
    )
    used(lab, ["proc:ada/python3"])
    push(twin, [W("gpu:GPU-9", 50_000, T0, T0 + MINUTE, 0, (("proc:ada/python3", 50_000),))])
    run_until_idle(worker="test")
    page = text_of(owner.get(ADDRESS))
    assert page.count('name="item"') == 1
    (energy,) = set(
        re.findall(
            r'data-figure="[^"]*metric=energy_mj[^"]*os_user=ada[^"]*" data-value="(\d+)"', page
        )
    )
    assert int(energy) == 3_050_000


def test_a_claim_takes_only_what_nobody_had(lab: SmallLab, owner: Client) -> None:
    """A rule knows ada on one machine and not on the other: claiming her line leaves the rule's
    hours where they were.
    """
    other = register_node(
        lab=lab.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=lab.site, now=T0
    )
    create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    used(lab, ["proc:ada/python3"])
    push(other, [W("gpu:GPU-9", 50_000, T0, T0 + MINUTE, 0, (("proc:ada/python3", 50_000),))])
    criteria = Criteria(os_user="ada", node=lab.node)
    vision = Project.objects.get(lab=lab.lab, slug="vision")
    rule = drafted_rule(lab=lab.lab, criteria=criteria, project=vision, person=None, from_us=T0)
    make_rule(rule=rule, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert owner.post(ADDRESS, {"item": ["ada\tpython3"], "project": "demo"}).status_code == 302
    after = by_charge(lab)
    assert after["vision", HOUR].energy_mj == 3_000_000
    assert after["demo", HOUR].energy_mj == 50_000
    assert Claim.objects.get().node == other


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"project": "demo"}, 400, 'data-field-error="item"'),
        ({"item": ["ada\tpython3"], "project": "nosuch"}, 404, 'data-field-error="project"'),
        ({"item": ["ada\tpython3"]}, 404, 'data-field-error="project"'),
        ({"item": ["nonsense"], "project": "demo"}, 400, 'data-field-error="item"'),
        ({"item": ["zoe\tx"], "project": "demo"}, 400, "data-form-errors"),
    ],
)
def test_mistakes_are_told_and_claim_nothing(
    lab: SmallLab, owner: Client, form: dict[str, Any], status: int, words: str
) -> None:
    used(lab, ["proc:ada/python3"])
    answer = owner.post(ADDRESS, form)
    assert answer.status_code == status
    assert words in text_of(answer)
    assert not Claim.objects.exists()


def test_a_viewer_reads_and_cannot_claim(lab: SmallLab, viewer: Client) -> None:
    used(lab, ["unknown"])
    page = text_of(viewer.get(ADDRESS))
    assert 'name="item"' not in page
    assert "data-read-only" in page
    assert viewer.post(ADDRESS, {"item": ["\t"], "project": "demo"}).status_code == 403
    assert not Claim.objects.exists()


def test_a_member_sees_and_claims_only_their_own(lab: SmallLab, owner: Client) -> None:
    ada, client = member(lab, "ada", Role.MEMBER)
    used(lab, ["proc:ada/python3", "proc:ben/secret"])
    rule = drafted_rule(
        lab=lab.lab, criteria=Criteria(os_user="ada"), project=None, person=ada, from_us=0
    )
    make_rule(rule=rule, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    page = without_secrets(text_of(client.get(ADDRESS)))
    assert "ada" in page
    assert "ben" not in page
    assert "secret" not in page
    assert "data-hidden-rows" in page
    assert client.post(ADDRESS, {"item": ["ben\tsecret"], "project": "demo"}).status_code == 400
    assert client.post(ADDRESS, {"item": ["ada\tpython3"], "project": "demo"}).status_code == 302
    assert by_charge(lab)["demo", HOUR].energy_mj == 3_000_000
    for address in ("/explain/", "/explain/ledger.csv"):
        asked = f"{address}?metric=energy_mj&subject=lab&from=2026-11-01&to=2026-11-10&os_user="
        assert client.get(asked + "ben").status_code == 403
        assert client.get(asked + "ada").status_code == 200


@pytest.mark.parametrize(
    ("policy", "role", "seen"),
    [
    ("own", Role.ADMIN, False), ("own", Role.PI, False), ("pi", Role.PI, True),
    ("pi", Role.MEMBER, False), ("lab", Role.MEMBER, True), ("lab", Role.VIEWER, True),
],
)  # fmt: skip
def test_the_labs_policy_says_who_sees_others(
    lab: SmallLab, policy: str, role: Role, seen: bool
) -> None:
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=policy)
    _, client = member(lab, "asker", role)
    used(lab, ["proc:ben/secret"])
    assert ("secret" in text_of(client.get(ADDRESS))) is seen
    asked = "/explain/?metric=energy_mj&subject=lab&from=2026-11-01&to=2026-11-10&os_user=ben"
    assert client.get(asked).status_code == (200 if seen else 403)


def test_only_who_claimed_it_or_a_pi_may_undo(lab: SmallLab, owner: Client) -> None:
    _, other = member(lab, "zoe", Role.MEMBER)
    used(lab, ["proc:ada/python3"])
    owner.post(ADDRESS, {"item": ["ada\tpython3"], "project": "demo"})
    act = Claim.objects.get().act
    assert other.post(f"/claims/{act}/").status_code == 403
    assert Claim.objects.get().undone_us is None
    _, pi = member(lab, "pia", Role.PI)
    assert pi.post(f"/claims/{act}/").status_code == 302
    assert Claim.objects.get().undone_us is not None


def test_outsiders_methods_and_the_empty_state(
    lab: SmallLab, owner: Client, outsider: Client
) -> None:
    assert 'data-unattributed="0"' in text_of(owner.get(ADDRESS))
    used(lab, ["proc:ada/python3"])
    owner.post(ADDRESS, {"item": ["ada\tpython3"], "project": "demo"})
    act = Claim.objects.get().act
    assert outsider.post(f"/claims/{act}/").status_code == 404
    assert "ada" not in without_secrets(text_of(outsider.get(ADDRESS)))
    assert_needs_sign_in("/unattributed/")
    assert_only(owner, "/unattributed/", "GET", "POST")
    assert Client(enforce_csrf_checks=True).post(ADDRESS).status_code == 403


def test_queries_do_not_grow_with_lines(lab: SmallLab, owner: Client) -> None:
    used(lab, ["proc:u0/p0"])
    few = queries(owner, ADDRESS)
    used(lab, [f"proc:u{i}/p{i}" for i in range(1, 40)], first=1)
    assert queries(owner, ADDRESS) == few


def test_system_processes_are_stated_and_not_listed(lab: SmallLab, owner: Client) -> None:
    used(lab, ["proc:root/Xorg [system account]", "proc:ada/python3"])
    page = text_of(owner.get(ADDRESS))
    assert page.count('name="item"') == 1
    assert "data-system" in page
    assert "Xorg" not in page
    assert_each_figure_explains_itself(owner, page)
    overview = text_of(owner.get(f"/?{PERIOD}"))
    assert "s-system" in overview
    assert "consumer=system" in overview
    assert_each_figure_explains_itself(owner, overview)
    table = text_of(owner.get(f"/overview.csv?{PERIOD}"))
    assert "System" in table
