"""/people/ and what it posts to: roles, removal, invitations."""

import re

import pytest
from django.test import Client

from apps.accounts.audit import with_names
from apps.accounts.choices import PersonView, Role
from apps.accounts.models import AuditEntry, Invitation, Lab, Membership, OneTimeCode, Token, User
from apps.accounts.services.invitations import invite
from apps.accounts.services.labs import CodePurpose, issue_code, issue_user_token
from apps.core.clock import now_us
from apps.dashboard.people.people_pages import POLICY_TEXTS
from tests.api.conftest import Caller, add_person
from tests.builders import SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of


@pytest.fixture
def member(lab: SmallLab) -> User:
    return add_person(lab, Role.MEMBER)


@pytest.fixture
def pi(lab: SmallLab) -> Client:
    return client_of(add_person(lab, Role.PI))


def _role(lab: SmallLab, user: User) -> str | None:
    return Membership.objects.filter(lab=lab.lab, user=user).values_list("role", flat=True).first()


def test_everybody_sees_who_is_there(
    lab: SmallLab, owner: Client, viewer: Client, member: User
) -> None:
    for client in (owner, viewer):
        page = text_of(client.get("/people/"))
        assert lab.owner.username in page
        assert member.username in page
        assert 'data-joined="unknown"' in page, "nobody wrote down when the member joined"
    assert 'data-form="invitation"' in text_of(owner.get("/people/"))
    assert "/remove/" in text_of(owner.get("/people/"))
    assert "/remove/" not in text_of(viewer.get("/people/"))
    assert 'data-form="invitation"' not in text_of(viewer.get("/people/"))


@pytest.mark.parametrize("policy", PersonView)
def test_the_policy_is_shown_to_members(lab: SmallLab, viewer: Client, policy: PersonView) -> None:
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=policy)
    assert f'data-policy="{policy}">{POLICY_TEXTS[policy]}' in text_of(viewer.get("/people/"))


def test_an_admin_changes_a_role(lab: SmallLab, owner: Client, member: User) -> None:
    response = owner.post(f"/people/{member.pk}/role/", {"role": "pi"})
    assert response["Location"] == "/people/"
    assert _role(lab, member) == Role.PI
    assert "now has the role PI" in text_of(owner.get("/people/"))
    row = AuditEntry.objects.get(action="member.role")
    named = with_names(row)
    assert (named.actor, named.subject) == (lab.owner.username, member.username)
    assert row.details == {"role": {"from": "member", "to": "pi"}, "invitations_ended": 0}
    owner.post(f"/people/{member.pk}/role/", {"role": "pi"})
    assert AuditEntry.objects.filter(action="member.role").count() == 1, (
        "what changes nothing is no act"
    )


@pytest.mark.parametrize("role", ["", "owner", "Admin", "x" * 500, "\x00"])
def test_no_such_role(lab: SmallLab, owner: Client, member: User, role: str) -> None:
    response = owner.post(f"/people/{member.pk}/role/", {"role": role})
    assert response.status_code == 400
    assert 'data-form-errors="1"' in text_of(response)
    assert _role(lab, member) == Role.MEMBER


@pytest.mark.parametrize("own", [Role.VIEWER, Role.MEMBER, Role.PI])
def test_nobody_but_an_admin_makes_an_admin(lab: SmallLab, own: Role) -> None:
    """Of themselves neither: by the role form, by an invitation, by more fields than the form
    has.
    """
    person = add_person(lab, own)
    client = client_of(person)
    for address, form in (
        (f"/people/{person.pk}/role/", {"role": "admin"}),
        (f"/people/{lab.owner.pk}/role/", {"role": "viewer"}),
        (f"/people/{lab.owner.pk}/remove/", {}),
        ("/people/", {"role": "admin"}),
        ("/people/", {"role": "pi"}),
        ("/settings/", {"lab": "Mine", "time_zone": "UTC", "person_view": "lab"}),
    ):
        assert client.post(address, form).status_code == 403, address
    assert _role(lab, person) == own
    assert _role(lab, lab.owner) == Role.ADMIN
    assert not Invitation.objects.exists()


def test_read_only_fields_stay(lab: SmallLab, owner: Client, member: User) -> None:
    forged = {
        "role": "viewer",
        "user": lab.owner.pk,
        "lab": 99,
        "joined_us": 1,
        "is_superuser": "1",
        "username": "root",
    }
    owner.post(f"/people/{member.pk}/role/", forged)
    found = Membership.objects.get(user=member)
    assert (found.lab, found.role, found.joined_us) == (lab.lab, Role.VIEWER, None)
    member.refresh_from_db()
    assert not member.is_superuser
    owner.post(
        "/people/",
        {"role": "viewer", "by": member.pk, "expires_us": 2**60, "accepted_us": 1, "digest": "0"},
    )
    made = Invitation.objects.get()
    assert (made.by, made.accepted_us) == (lab.owner, None)
    assert made.expires_us < now_us() + 15 * 86_400_000_000


def test_removal_ends_everything_at_once(lab: SmallLab, owner: Client, member: User) -> None:
    theirs, token = (
        client_of(member),
        Caller(issue_user_token(lab=lab.lab, user=member, now=now_us())),
    )
    login = issue_code(purpose=CodePurpose.LOGIN, now=now_us(), lab=lab.lab, user=member)
    enrol = issue_code(purpose=CodePurpose.ENROL, now=now_us(), lab=lab.lab, user=member)
    assert theirs.get("/").status_code == 200
    assert token("GET", "runs/").status_code == 200
    response = owner.post(f"/people/{member.pk}/remove/")
    assert response["Location"] == "/people/"
    assert "removed from the lab" in text_of(owner.get("/people/"))
    assert token("GET", "runs/").status_code == 401
    refused = theirs.get("/")
    assert refused.status_code == 403
    assert 'href="/invite/"' in text_of(refused), "the next step"
    assert theirs.get("/api/v1/runs/").status_code == 403
    for path, code in (("login/", login), ("enrol/", enrol)):
        body = (
            {"code": code, "node": str(lab.node.uuid), "hostname": "x"}
            if path == "enrol/"
            else {"code": code}
        )
        assert Caller(None)("POST", path, body).status_code == 400
    assert Token.objects.get(user=member).revoked_us is not None
    assert AuditEntry.objects.get(action="member.removed").details == {
        "role": "member",
        "tokens_ended": 1,
        "invitations_ended": 0,
    }
    Membership.objects.create(lab=lab.lab, user=member, role=Role.MEMBER)
    assert token("GET", "runs/").status_code == 401, "coming back does not bring old tokens back"


def test_a_demoted_pi_enrols_no_node_with_an_old_code(lab: SmallLab, owner: Client) -> None:
    person = add_person(lab, Role.PI)
    issue_code(purpose=CodePurpose.ENROL, now=now_us(), lab=lab.lab, user=person)
    owner.post(f"/people/{person.pk}/role/", {"role": "member"})
    assert OneTimeCode.objects.get().uses_left == 0


@pytest.mark.parametrize("act", ["remove/", "role/"])
def test_the_last_admin_stays(lab: SmallLab, owner: Client, act: str) -> None:
    asleep = add_person(lab, Role.ADMIN)
    User.objects.filter(pk=asleep.pk).update(is_active=False)
    response = owner.post(f"/people/{lab.owner.pk}/{act}", {"role": "viewer"})
    assert response.status_code == 409
    assert re.search(r'data-form-errors="1"|data-error="409"', text_of(response))
    assert _role(lab, lab.owner) == Role.ADMIN
    add_person(lab, Role.ADMIN)
    assert owner.post(f"/people/{lab.owner.pk}/{act}", {"role": "viewer"}).status_code == 302


def test_a_pi_invites_and_the_link_is_shown_once(lab: SmallLab, pi: Client) -> None:
    page = text_of(
        pi.post("/people/", {"role": "member", "email": "Ada@example.org", "note": "Ada"})
    )
    found = re.search(r"/invite/\?code=([A-Z0-9-]{23})<", page)
    assert found is not None
    again = text_of(pi.get("/people/"))
    assert found[1] not in again
    assert "ada@example.org" in again
    assert Client().get(f"/invite/?code={found[1]}").status_code == 200


def test_open_invitations_are_for_those_who_invite(
    lab: SmallLab, owner: Client, viewer: Client, pi: Client
) -> None:
    invite(lab=lab.lab, role=Role.PI, by=lab.owner, now=now_us(), email="secret@example.org")
    assert "secret@example.org" in text_of(owner.get("/people/"))
    page = text_of(pi.get("/people/"))
    assert "secret@example.org" in page
    assert "Revoke" not in page.split("Open invitations")[1].split("</thead>")[1], (
        "a PI does not revoke a PI's invitation"
    )
    assert "secret@example.org" not in text_of(viewer.get("/people/"))


def test_revoking(lab: SmallLab, owner: Client, viewer: Client, outsider: Client) -> None:
    made, code = invite(lab=lab.lab, role=Role.VIEWER, by=lab.owner, now=now_us())
    address = f"/invitations/{made.pk}/revoke/"
    assert viewer.post(address).status_code == 403
    assert outsider.post(address).status_code == 404
    assert owner.post(address)["Location"] == "/people/"
    assert Client().get(f"/invite/?code={code}").status_code == 400
    assert owner.post(address).status_code == 409


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        ({"role": "owner"}, {"role"}),
        ({"role": ""}, {"role"}),
        ({"role": "viewer", "email": "ada"}, {"email"}),
        ({"role": "owner", "email": "ada"}, {"role", "email"}),
    ],
)
def test_a_bad_invitation_shows_its_field_and_keeps_the_input(
    lab: SmallLab, owner: Client, form: dict[str, str], fields: set[str]
) -> None:
    response = owner.post("/people/", {"note": "for Ada", **form})
    assert response.status_code == 400
    assert set(re.findall(r'data-field-error="(\w+)"', text_of(response))) == fields
    assert 'value="for Ada"' in text_of(response)


def test_anonymous_wrong_method_and_outsider(
    lab: SmallLab, owner: Client, outsider: Client, member: User
) -> None:
    assert_needs_sign_in("/people/")
    assert_only(owner, "/people/", "GET", "POST")
    for act in ("role", "remove"):
        assert_only(owner, f"/people/{member.pk}/{act}/", "POST")
        assert outsider.post(f"/people/{member.pk}/{act}/", {"role": "viewer"}).status_code == 404
        assert (
            owner.post(f"/people/99999999999999999999999/{act}/", {"role": "viewer"}).status_code
            == 404
        )
        theirs = User.objects.get(username="charlie")
        assert owner.post(f"/people/{theirs.pk}/{act}/", {"role": "viewer"}).status_code == 404
    assert member.username not in text_of(outsider.get("/people/"))
    assert _role(lab, member) == Role.MEMBER


def test_each_form_needs_a_csrf_token(lab: SmallLab, member: User) -> None:
    made, _ = invite(lab=lab.lab, role=Role.VIEWER, by=lab.owner, now=now_us())
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.owner)
    for address in (
        "/people/",
        f"/people/{member.pk}/role/",
        f"/people/{member.pk}/remove/",
        f"/invitations/{made.pk}/revoke/",
    ):
        assert client.post(address, {"role": "admin"}).status_code == 403, address
    assert _role(lab, member) == Role.MEMBER
    assert Invitation.objects.filter(revoked_us=None).count() == 1


def test_queries_do_not_grow_with_people(lab: SmallLab, owner: Client) -> None:
    few = queries(owner, "/people/")
    for _ in range(20):
        add_person(lab, Role.MEMBER)
        invite(lab=lab.lab, role=Role.VIEWER, by=lab.owner, now=now_us(), note="x")
    assert queries(owner, "/people/") == few


def test_another_labs_people_are_not_counted(lab: SmallLab, owner: Client) -> None:
    before = text_of(owner.get("/people/"))
    other = small_lab(name="Other Lab")
    add_person(other, Role.MEMBER)
    invite(lab=other.lab, role=Role.VIEWER, by=other.owner, now=now_us(), note="theirs")
    after = text_of(owner.get("/people/"))
    token = re.compile(r'name="csrfmiddlewaretoken" value="\w+"')
    assert token.sub("", after) == token.sub("", before)


def test_hostile_names_are_text(lab: SmallLab, owner: Client, member: User) -> None:
    User.objects.filter(pk=member.pk).update(username=HOSTILE[:150], first_name=HOSTILE[:150])
    invite(lab=lab.lab, role=Role.VIEWER, by=lab.owner, now=now_us(), note=HOSTILE)
    page = text_of(owner.get("/people/"))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
