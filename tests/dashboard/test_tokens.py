"""/tokens/: made once, shown once, never more than the maker's present role."""

import re

import pytest
from django.test import Client

from apps.accounts.audit import with_names
from apps.accounts.authentication import forget_tokens
from apps.accounts.choices import Role, TokenKind
from apps.accounts.models import AuditEntry, Membership, Token, User
from apps.accounts.services.labs import issue_node_token, issue_user_token
from apps.accounts.services.members import change_role, remove_member
from apps.accounts.services.tokens import create_token
from apps.core.clock import now_us
from apps.runs.models import Run
from tests.api.conftest import Caller, add_person
from tests.builders import SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of

RUN = "7f1d3b52-2222-4333-8444-555566667777"
FACTS = {"name": "train.py", "started_at": "2026-11-02T08:00:00Z"}
FORM = {"name": "sweep server", "scopes": ["runs:read", "runs:write"]}


def _shown(page: str) -> str:
    found = re.search(r"lc_(user|service)_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}", page)
    assert found is not None, page
    return found[0]


def _service(lab: SmallLab, **more: object) -> Caller:
    kept = {
        "name": "tracker",
        "scopes": ["runs:read", "runs:write"],
        "expires_us": None,
        "by": lab.owner,
        "now": now_us(),
    }
    return Caller(create_token(lab=lab.lab, kind=TokenKind.SERVICE, **{**kept, **more})[1])  # type: ignore[arg-type]


def test_it_is_shown_once_and_works(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.post("/tokens/", FORM))
    token = _shown(page)
    assert page.count(token) == 1
    assert token not in text_of(owner.get("/tokens/"))
    assert "sweep server" in text_of(owner.get("/tokens/"))
    assert Caller(token)("GET", "runs/").status_code == 200
    made = Token.objects.get(kind="user")
    assert (made.user, made.created_by, made.name, made.scopes) == (
        lab.owner,
        lab.owner,
        "sweep server",
        "runs:write runs:read",
    )
    assert made.last_used_us is not None
    row = AuditEntry.objects.get(action="token.made")
    assert (with_names(row).actor, row.subject) == (lab.owner.username, made.public_id)
    assert token not in str(row.details) + str(list(Token.objects.values()))


def test_it_does_only_what_was_chosen(lab: SmallLab, owner: Client) -> None:
    token = Caller(_shown(text_of(owner.post("/tokens/", {**FORM, "scopes": ["runs:read"]}))))
    assert token("GET", "runs/").status_code == 200
    assert token("PUT", f"runs/{RUN}/", FACTS).status_code == 403
    assert (
        token(
            "GET", "figures/?metric=energy_mj&from=2026-11-01T00:00Z&to=2026-11-02T00:00Z"
        ).status_code
        == 403
    )


def test_it_ends_on_its_day(lab: SmallLab, owner: Client) -> None:
    token = Caller(_shown(text_of(owner.post("/tokens/", {**FORM, "days": "30"}))))
    made = Token.objects.get(kind="user")
    assert made.expires_us == made.created_us + 30 * 86_400_000_000
    assert token("GET", "runs/").status_code == 200
    Token.objects.update(expires_us=now_us())
    assert token("GET", "runs/").status_code == 401
    assert "expired" in text_of(owner.get("/tokens/"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": ""}, "Enter a name"),
        ({"name": "x" * 101}, "100"),
        ({"scopes": []}, "at least one permission"),
        ({"scopes": ["admin"]}, "admin"),
        ({"days": "31"}, "30, 90 or 365"),
        ({"days": "-1"}, "30, 90 or 365"),
        ({"kind": "node"}, "node"),
        ({"kind": "admin"}, "admin"),
        ({"name": "", "scopes": [], "days": "31"}, ""),
    ],
)
def test_bad_input(lab: SmallLab, owner: Client, change: dict[str, object], text: str) -> None:
    response = owner.post("/tokens/", {**FORM, **change})
    assert response.status_code == 400
    assert set(re.findall(r'data-field-error="(\w+)"', text_of(response))) == set(change)
    assert text in text_of(response)
    assert not Token.objects.exists()


def test_a_permission_beyond_the_role_is_refused(lab: SmallLab, owner: Client) -> None:
    response = owner.post("/tokens/", {**FORM, "scopes": ["ingest:write"]})
    assert response.status_code == 403
    assert "ingest:write" in text_of(response)
    assert not Token.objects.exists()


def test_a_viewer_makes_no_token_that_writes_and_none_for_a_service(
    lab: SmallLab, viewer: Client
) -> None:
    assert 'name="kind"' not in text_of(viewer.get("/tokens/"))
    assert viewer.post("/tokens/", FORM).status_code == 403
    assert (
        viewer.post("/tokens/", {**FORM, "scopes": ["runs:read"], "kind": "service"}).status_code
        == 403
    )
    assert not Token.objects.exists()
    assert viewer.post("/tokens/", {**FORM, "scopes": ["runs:read"]}).status_code == 200


@pytest.mark.parametrize("role", [Role.MEMBER, Role.PI])
def test_only_an_admin_makes_a_services_token(lab: SmallLab, role: Role) -> None:
    client = client_of(add_person(lab, role))
    assert client.post("/tokens/", {**FORM, "kind": "service"}).status_code == 403
    assert not Token.objects.exists()


def test_read_only_fields_stay(lab: SmallLab, viewer: Client) -> None:
    forged = {
        "name": "x",
        "scopes": ["runs:read"],
        "user": lab.owner.pk,
        "created_by": lab.owner.pk,
        "node_uuid": lab.node.uuid,
    }
    viewer.post("/tokens/", {**forged, "expires_us": 2**62, "lab": 99})
    made = Token.objects.get()
    assert made.user == made.created_by == User.objects.get(username="viewer")
    assert (made.lab, made.node_uuid, made.expires_us) == (lab.lab, None, None)


def test_a_services_runs_are_nobodys(lab: SmallLab) -> None:
    service = _service(lab)
    assert service("PUT", f"runs/{RUN}/", FACTS).status_code == 200
    assert Run.objects.get().user is None
    assert service("POST", "ingest/", b"{}").status_code == 403
    assert service("GET", "config/").status_code == 403


def test_a_service_follows_its_makers_present_role(lab: SmallLab) -> None:
    service, other = _service(lab), add_person(lab, Role.ADMIN)
    assert service("PUT", f"runs/{RUN}/", FACTS).status_code == 200
    change_role(lab=lab.lab, person=lab.owner, role=Role.VIEWER, by=other, now=now_us())
    assert service("PUT", f"runs/{RUN}/", FACTS).status_code == 403
    assert service("GET", "runs/").status_code == 200


def test_a_service_ends_when_its_maker_leaves(lab: SmallLab) -> None:
    service, other = _service(lab), add_person(lab, Role.ADMIN)
    node = Caller(
        issue_node_token(lab=lab.lab, node_uuid=lab.node.uuid, now=now_us(), by=lab.owner)
    )
    remove_member(lab=lab.lab, person=lab.owner, by=other, now=now_us())
    assert service("GET", "runs/").status_code == 401
    assert node("GET", "config/").status_code == 200, "a machine goes on measuring"


@pytest.mark.parametrize("how", ["membership", "inactive", "account"])
def test_a_service_ends_however_its_maker_leaves(lab: SmallLab, how: str) -> None:
    service = _service(lab)
    if how == "membership":
        Membership.objects.filter(user=lab.owner).delete()
    elif how == "inactive":
        User.objects.filter(pk=lab.owner.pk).update(is_active=False)
    else:
        lab.owner.delete()
    assert service("GET", "runs/").status_code == 401


def test_ending_ones_own(lab: SmallLab, owner: Client) -> None:
    token = _shown(text_of(owner.post("/tokens/", FORM)))
    made = Token.objects.get()
    assert owner.post(f"/tokens/{made.public_id}/revoke/")["Location"] == "/tokens/"
    assert Caller(token)("GET", "runs/").status_code == 401
    assert "revoked" in text_of(owner.get("/tokens/"))
    assert owner.post(f"/tokens/{made.public_id}/revoke/").status_code == 409
    assert AuditEntry.objects.filter(action="token.revoked").count() == 1


def test_others_tokens_are_an_admins_to_see_and_end(
    lab: SmallLab, owner: Client, viewer: Client
) -> None:
    person = add_person(lab, Role.MEMBER)
    token = Caller(issue_user_token(lab=lab.lab, user=person, now=now_us(), name="theirs-only"))
    made = Token.objects.get()
    assert "theirs-only" not in text_of(viewer.get("/tokens/"))
    assert viewer.post(f"/tokens/{made.public_id}/revoke/").status_code == 404
    assert token("GET", "runs/").status_code == 200
    assert "theirs-only" in text_of(owner.get("/tokens/"))
    assert owner.post(f"/tokens/{made.public_id}/revoke/").status_code == 302
    assert token("GET", "runs/").status_code == 401


def test_a_nodes_token_is_listed_and_ended(lab: SmallLab, owner: Client, viewer: Client) -> None:
    node = Caller(issue_node_token(lab=lab.lab, node_uuid=lab.node.uuid, now=now_us()))
    assert node("GET", "config/").status_code == 200
    assert lab.node.hostname in text_of(owner.get("/tokens/"))
    assert lab.node.hostname not in text_of(viewer.get("/tokens/"))
    owner.post(f"/tokens/{Token.objects.get().public_id}/revoke/")
    # after the commit, which a test's transaction does not reach; other processes: within ten
    # seconds
    forget_tokens()
    assert node("GET", "config/").status_code == 401


def test_anonymous_wrong_method_and_outsider(
    lab: SmallLab, owner: Client, outsider: Client
) -> None:
    assert_needs_sign_in("/tokens/")
    assert_only(owner, "/tokens/", "GET", "POST")
    owner.post("/tokens/", {**FORM, "name": "ours alone"})
    made = Token.objects.get()
    assert_only(owner, f"/tokens/{made.public_id}/revoke/", "POST")
    assert outsider.post(f"/tokens/{made.public_id}/revoke/").status_code == 404
    assert owner.post("/tokens/nonesuch/revoke/").status_code == 404
    page = text_of(outsider.get("/tokens/"))
    assert "ours alone" not in page
    assert made.public_id not in page
    assert lab.node.hostname not in page
    made.refresh_from_db()
    assert made.revoked_us is None


def test_a_token_of_one_lab_shows_nothing_of_another_of_the_same_person(
    lab: SmallLab, owner: Client
) -> None:
    other = small_lab(name="Other Lab")
    Membership.objects.create(lab=other.lab, user=lab.owner, role=Role.ADMIN)
    create_token(
        lab=other.lab,
        kind=TokenKind.USER,
        name="over-there",
        scopes=["runs:read"],
        expires_us=None,
        by=lab.owner,
        now=now_us(),
    )
    assert "over-there" not in text_of(owner.get("/tokens/"))
    assert owner.post(f"/tokens/{Token.objects.get().public_id}/revoke/").status_code == 404


def test_each_form_needs_a_csrf_token(lab: SmallLab) -> None:
    issue_user_token(lab=lab.lab, user=lab.owner, now=now_us())
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.owner)
    assert client.post("/tokens/", FORM).status_code == 403
    assert client.post(f"/tokens/{Token.objects.get().public_id}/revoke/").status_code == 403
    assert Token.objects.filter(revoked_us=None).count() == 1


def test_queries_do_not_grow_with_tokens(lab: SmallLab, owner: Client) -> None:
    few = queries(owner, "/tokens/")
    for _ in range(20):
        issue_user_token(lab=lab.lab, user=add_person(lab, Role.MEMBER), now=now_us())
        issue_user_token(lab=lab.lab, user=lab.owner, now=now_us())
    assert queries(owner, "/tokens/") == few


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    for name in (HOSTILE[:100], HOSTILE, "a\x00b"):
        assert "<script>alert" not in text_of(owner.post("/tokens/", {**FORM, "name": name}))
    assert "<script>alert" not in text_of(owner.get("/tokens/"))
