"""Several labs on one server: the lab at hand, going to another, and nothing seen across."""

import re
from io import StringIO
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from apps.accounts.choices import CodePurpose, Role
from apps.accounts.models import Lab, Membership, Project, User
from apps.accounts.services.labs import create_lab, issue_code, issue_user_token
from apps.core.clock import now_us
from apps.fleet.models import Site
from apps.fleet.selectors import zone_at
from apps.runs.services.runs import RunFacts, put_run
from tests.api.conftest import Caller
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    PERIOD,
    assert_needs_sign_in,
    assert_only,
    queries,
    text_of,
    use,
    without_secrets,
)


@pytest.fixture
def other(lab: SmallLab) -> SmallLab:
    """Another lab, of which our owner is a viewer."""
    made = small_lab(name="Other Lab", zone="FR")
    Membership.objects.create(lab=made.lab, user=lab.owner, role=Role.VIEWER)
    return made


def _lab_at_hand(client: Client) -> str:
    page = text_of(client.get("/nodes/"))
    found = re.search(r'aria-label="Lab: ([^"]+)\. Switch lab"|<span class="lab">([^<]+)<', page)
    assert found is not None
    return found[1] or found[2]


def _runs(client: Client) -> set[str]:
    return {run["uuid"] for run in client.get("/api/v1/runs/").json()["results"]}


def _run(small: SmallLab) -> str:
    uuid = uuid4()
    facts = RunFacts(name="train.py", started_us=T0)
    put_run(lab=small.lab, uuid=uuid, facts=facts, by=None, bound_node=None)
    return str(uuid)


def test_who_has_one_lab_sees_no_switch(lab: SmallLab, owner: Client) -> None:
    assert "/labs/switch/" not in text_of(owner.get("/"))


def test_switching_changes_lab_role_pages_and_api(
    lab: SmallLab, owner: Client, other: SmallLab
) -> None:
    ours, theirs = _run(lab), _run(other)
    assert _lab_at_hand(owner) == "Cell Lab"
    assert _runs(owner) == {ours}
    assert owner.post("/labs/switch/", {"lab": "other-lab"})["Location"] == "/"
    assert _lab_at_hand(owner) == "Other Lab"
    assert _runs(owner) == {theirs}
    assert owner.get(f"/runs/{theirs}/").status_code == 200
    assert owner.get(f"/runs/{ours}/").status_code == 404
    assert owner.post("/projects/", {"name": "Mine"}).status_code == 403, (
        "a viewer there, whatever they are elsewhere"
    )
    assert owner.get("/audit/").status_code == 403
    owner.post("/labs/switch/", {"lab": "cell-lab"})
    assert _lab_at_hand(owner) == "Cell Lab"
    assert owner.get("/audit/").status_code == 200


@pytest.mark.parametrize("wanted", ["other-lab", "nonesuch", "", "\x00"])
def test_a_lab_of_others_is_no_lab(lab: SmallLab, owner: Client, wanted: str) -> None:
    create_lab(name="Other Lab", time_zone="UTC", owner=User.objects.create_user("bob"), now=T0)
    response = owner.post("/labs/switch/", {"lab": wanted})
    assert response.status_code == 404
    assert "Other Lab" not in text_of(response)
    assert _lab_at_hand(owner) == "Cell Lab"


def test_who_left_the_lab_at_hand_falls_back_to_another_then_to_none(
    lab: SmallLab, owner: Client, other: SmallLab
) -> None:
    owner.post("/labs/switch/", {"lab": "other-lab"})
    Membership.objects.filter(lab=other.lab, user=lab.owner).delete()
    assert _lab_at_hand(owner) == "Cell Lab"
    assert owner.get("/api/v1/runs/").status_code == 200
    Membership.objects.filter(user=lab.owner).delete()
    assert owner.get("/").status_code == 403
    assert owner.get("/api/v1/runs/").status_code == 403


def test_a_form_of_the_lab_before_does_not_land_in_this_one(lab: SmallLab, other: SmallLab) -> None:
    """A second tab still shows the first lab; what it sends is refused, not done elsewhere."""
    Membership.objects.filter(lab=other.lab, user=lab.owner).update(role=Role.ADMIN)
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.owner)

    def token(address: str) -> str:
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', text_of(client.get(address)))
        assert found is not None
        return found[1]

    tab = token("/projects/")
    client.post("/labs/switch/", {"lab": "other-lab", "csrfmiddlewaretoken": token("/")})
    assert (
        client.post("/projects/", {"name": "Ours", "csrfmiddlewaretoken": tab}).status_code == 403
    )
    assert not Project.objects.filter(name="Ours").exists()
    assert (
        client.post(
            "/projects/", {"name": "Theirs", "csrfmiddlewaretoken": token("/projects/")}
        ).status_code
        == 302
    )
    assert Project.objects.get(name="Theirs").lab == other.lab


def test_switching_needs_a_csrf_token_and_a_session(
    lab: SmallLab, owner: Client, other: SmallLab
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.owner)
    assert client.post("/labs/switch/", {"lab": "other-lab"}).status_code == 403
    assert _lab_at_hand(client) == "Cell Lab"
    assert_needs_sign_in("/labs/switch/")
    assert_only(owner, "/labs/switch/", "POST")


def test_a_token_stays_in_its_lab_whatever_the_session_holds(
    lab: SmallLab, owner: Client, other: SmallLab
) -> None:
    ours = _run(lab)
    _run(other)
    token = Caller(issue_user_token(lab=lab.lab, user=lab.owner, now=now_us()))
    owner.post("/labs/switch/", {"lab": "other-lab"})
    assert {run["uuid"] for run in token("GET", "runs/").json()["results"]} == {ours}


def test_a_sign_in_link_leads_to_its_lab(lab: SmallLab, other: SmallLab) -> None:
    code = issue_code(purpose=CodePurpose.SIGN_IN, now=now_us(), lab=other.lab, user=lab.owner)
    client = Client()
    client.post("/signin/", {"code": code})
    assert _lab_at_hand(client) == "Other Lab"


PAGES = (
    f"/?{PERIOD}",
    "/overview/table/?" + PERIOD,
    "/overview/hardware/?" + PERIOD,
    "/overview.csv?" + PERIOD,
    "/projects/?" + PERIOD,
    "/runs/",
    "/runs.csv",
    "/nodes/?" + PERIOD,
    "/people/",
    "/tokens/",
    "/settings/",
    "/audit/",
    "/audit.csv",
    "/api/v1/runs/",
    (
        "/api/v1/figures/?metric=energy_mj&from=2026-11-01T00:00Z&to=2026-11-10T00:00Z&"
        "group_by=project"
    ),
)


@pytest.mark.usefixtures("still")
def test_two_labs_see_nothing_of_each_other_counts_included(
    lab: SmallLab, owner: Client, subtests: pytest.Subtests
) -> None:
    """Whatever a lab does, no answer to another one changes by a letter (but for what is drawn
    anew for each answer).
    """
    use(lab, runs=2)

    def answer(address: str) -> str:
        return without_secrets(text_of(owner.get(address)))

    before = {address: answer(address) for address in PAGES}
    theirs = small_lab(name="Secret Lab", zone="FR")
    use(theirs, runs=3, project="demo", name="secret.py", first=40)
    issue_user_token(lab=theirs.lab, user=theirs.owner, now=T0)
    for address in PAGES:
        with subtests.test(address):
            assert answer(address) == before[address]
            assert str(theirs.node.uuid) not in before[address]


def test_two_labs_may_have_one_name_and_project_names_of_their_own(lab: SmallLab) -> None:
    data_table = create_lab(name="Cell Lab", time_zone="UTC", owner=lab.owner, now=T0)
    third = create_lab(name="Cell lab", time_zone="UTC", owner=lab.owner, now=T0)
    assert [lab.lab.slug, data_table.slug, third.slug] == ["cell-lab", "cell-lab-2", "cell-lab-3"]
    assert Project.objects.filter(slug="demo").count() == 3


@pytest.mark.parametrize("name", ["€", "x" * 200, "-", "Ünï Łab"])
def test_any_name_gives_a_short_name(lab: SmallLab, name: str) -> None:
    made = [create_lab(name=name, time_zone="UTC", owner=lab.owner, now=T0) for _ in range(2)]
    for each in made:
        each.full_clean()
    assert made[0].slug != made[1].slug


def test_queries_do_not_grow_with_labs(lab: SmallLab, owner: Client, other: SmallLab) -> None:
    few = queries(owner, "/people/")
    for i in range(8):
        create_lab(name=f"Lab {i}", time_zone="UTC", owner=lab.owner, now=T0)
    assert queries(owner, "/people/") == few


def _command(**options: object) -> str:
    out = StringIO()
    call_command(
        "create_lab", stdout=out, **{"name": "New Lab", "user": "ada", "zone": "FR", **options}
    )
    return out.getvalue()


def test_the_command_adds_a_lab_for_somebody_who_is_here(lab: SmallLab) -> None:
    told = _command(user=lab.owner.username, time_zone="Europe/Paris")
    assert f"New Lab is there, with {lab.owner.username} as its admin" in told
    assert "signin" not in told
    made = Lab.objects.get(slug="new-lab")
    assert (made.time_zone, zone_at(Site.objects.get(lab=made), 0)) == ("Europe/Paris", "FR")
    assert Membership.objects.get(lab=made).role == Role.ADMIN


def test_the_command_makes_an_account_and_a_link_that_signs_it_in(lab: SmallLab) -> None:
    found = re.search(r"/signin/\?code=([A-Z0-9-]+)", _command(new_account=True))
    assert found is not None
    client = Client()
    client.post("/signin/", {"code": found[1]})
    assert _lab_at_hand(client) == "New Lab"


def test_the_command_stores_the_basis(lab: SmallLab) -> None:
    text = _command(user=lab.owner.username, basis="direct", zone="IN")
    assert Lab.objects.get(slug="new-lab").basis == "direct"
    assert "IN has no direct factor" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "No user 'ada' on this server"),
        ({"name": " ", "new_account": True}, "The lab has no name"),
        ({"zone": "Germny", "new_account": True}, "Did you mean Germany"),
        ({"time_zone": "Berlin", "new_account": True}, "Did you mean Europe/Berlin"),
        ({"user": "a b", "new_account": True}, "username"),
        ({"user": "taken", "new_account": True}, "already exists"),
    ],
)
def test_the_command_tells_mistakes_and_makes_nothing(
    lab: SmallLab, options: dict[str, object], words: str
) -> None:
    User.objects.create_user("taken")
    before = (Lab.objects.count(), User.objects.count())
    with pytest.raises(CommandError, match=words):
        _command(**options)
    assert (Lab.objects.count(), User.objects.count()) == before


def test_the_command_before_set_up_names_set_up(db: None) -> None:
    with pytest.raises(CommandError, match="not set up yet"):
        _command()


def test_one_uuid_in_two_labs_is_two_runs(lab: SmallLab, other: SmallLab) -> None:
    """A run's UUID is a client's word: two labs may hold the same, each its own."""
    uuid: UUID = uuid4()
    for small, name in ((lab, "ours.py"), (other, "theirs.py")):
        put_run(
            lab=small.lab,
            uuid=uuid,
            facts=RunFacts(name=name, started_us=T0),
            by=None,
            bound_node=None,
        )
    client = client_of(lab.owner)
    assert "ours.py" in text_of(client.get(f"/runs/{uuid}/"))
    client.post("/labs/switch/", {"lab": "other-lab"})
    page = text_of(client.get(f"/runs/{uuid}/"))
    assert "theirs.py" in page
    assert "ours.py" not in page
