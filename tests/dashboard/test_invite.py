"""/invite/: the way into a lab by an invitation."""

import re

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Invitation, Membership, User
from apps.accounts.services.invitations import LIFE_US, invite
from apps.core.clock import now_us
from tests.builders import SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOSTILE, assert_only, text_of

NEW = {"username": "ada", "password": "correct horse battery"}


@pytest.fixture
def code(lab: SmallLab) -> str:
    return invite(
        lab=lab.lab,
        role=Role.MEMBER,
        by=lab.owner,
        now=now_us(),
        email="ada@example.org",
        note="welcome",
    )[1]


def _open() -> bool:
    return Invitation.objects.get().accepted_us is None


def test_looking_uses_nothing_up(lab: SmallLab, code: str) -> None:
    page = text_of(Client().get(f"/invite/?code={code}"))
    assert "Join Cell Lab" in page
    assert f"{lab.owner.username} invites you as Member" in page
    assert "welcome" in page
    assert _open()


def test_a_new_person_makes_an_account_and_joins(lab: SmallLab, code: str) -> None:
    client = Client()
    assert client.post("/invite/", {**NEW, "code": code})["Location"] == "/"
    assert "You joined Cell Lab as Member" in text_of(client.get("/"))
    ada = User.objects.get(username="ada")
    assert ada.check_password("correct horse battery")
    assert ada.email == "", "holding a link proves no address"
    assert Membership.objects.get(user=ada).role == Role.MEMBER
    assert (
        Client().post("/accounts/login/", {"login": "ada", "password": "correct horse battery"})[
            "Location"
        ]
        == "/"
    )


def test_a_person_with_an_account_joins_with_one_click_and_goes_on_there(
    lab: SmallLab, code: str
) -> None:
    other = small_lab(name="Other Lab")
    client = client_of(other.owner)
    page = text_of(client.get(f"/invite/?code={code}"))
    assert f"signed in as {other.owner.username}" in page
    assert 'name="password"' not in page
    assert client.post("/invite/", {"code": code})["Location"] == "/"
    assert re.search(r'aria-label="Lab: Cell Lab', text_of(client.get("/")))
    assert Membership.objects.filter(user=other.owner).count() == 2


def test_sign_in_first_leads_back_to_the_invitation(lab: SmallLab, code: str) -> None:
    bob = User.objects.create_user("bob", password="correct horse battery")
    client = Client()
    found = re.search(
        r'<a href="([^"]+)">Sign in first', text_of(client.get(f"/invite/?code={code}"))
    )
    assert found is not None
    response = client.post(found[1], {"login": "bob", "password": "correct horse battery"})
    assert response["Location"] == f"/invite/?code={code}"
    assert "signed in as bob" in text_of(client.get(response["Location"]))
    client.post("/invite/", {"code": code})
    assert Membership.objects.get(user=bob).role == Role.MEMBER


def test_somebody_without_a_lab_may_join(lab: SmallLab, code: str) -> None:
    client = client_of(User.objects.create_user("bob"))
    assert client.get("/").status_code == 403
    assert client.post("/invite/", {"code": code})["Location"] == "/"
    assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"username": ""}, "Enter a user name"),
        ({"username": "a b"}, "valid username"),
        ({"username": "taken"}, "already exists"),
        ({"password": "123"}, "too short"),
        ({"password": "password"}, "too common"),
        ({"password": ""}, "Enter a password"),
        ({"username": "", "password": ""}, ""),
    ],
)
def test_a_mistake_is_told_and_uses_nothing_up(
    lab: SmallLab, code: str, wrong: dict[str, str], text: str
) -> None:
    User.objects.create_user("taken")
    people = User.objects.count()
    response = Client().post("/invite/", {**NEW, "code": code, **wrong})
    assert response.status_code == 400
    assert set(re.findall(r'data-field-error="(\w+)"', text_of(response))) == set(wrong)
    assert text in text_of(response)
    assert "Join Cell Lab" in text_of(response), "the form is there again"
    assert _open()
    assert User.objects.count() == people


def test_wrong_used_expired_and_revoked_get_one_answer(lab: SmallLab, code: str) -> None:
    now = now_us()
    expired = invite(lab=lab.lab, role=Role.VIEWER, by=lab.owner, now=now - LIFE_US)[1]
    revoked = invite(lab=lab.lab, role=Role.VIEWER, by=lab.owner, now=now)
    Invitation.objects.filter(pk=revoked[0].pk).update(revoked_us=now)
    Client().post("/invite/", {**NEW, "code": code})
    people = User.objects.count()

    def answer(method: str, text: str) -> str:
        form = {**NEW, "username": "eve", "code": text}
        response = (
            Client().post("/invite/", form)
            if method == "post"
            else Client().get("/invite/", {"code": text})
        )
        assert response.status_code == 400
        page = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", text_of(response))
        assert page.count('role="alert"') == 1
        assert "Cell Lab" not in page
        return page

    for method in ("get", "post"):
        assert (
            len(
                {
                    answer(method, text)
                    for text in (code, expired, revoked[1], "WRONG", HOSTILE, "\x00")
                }
            )
            == 1
        )
    assert User.objects.count() == people


def test_a_member_hears_so_and_the_invitation_stays(
    lab: SmallLab, owner: Client, code: str
) -> None:
    response = owner.post("/invite/", {"code": code})
    assert response.status_code == 409
    assert 'data-form-errors="1"' in text_of(response)
    assert _open()


def test_without_a_code_it_asks_for_one(lab: SmallLab) -> None:
    page = text_of(Client().get("/invite/"))
    assert 'name="code"' in page
    assert Client().post("/invite/", NEW).status_code == 400


def test_wrong_method_and_csrf(lab: SmallLab, code: str) -> None:
    assert_only(Client(), "/invite/", "GET", "POST")
    assert (
        Client(enforce_csrf_checks=True).post("/invite/", {**NEW, "code": code}).status_code == 403
    )
    signed_in = Client(enforce_csrf_checks=True)
    signed_in.force_login(User.objects.create_user("bob"))
    assert signed_in.post("/invite/", {"code": code}).status_code == 403
    assert _open()


def test_the_answer_is_kept_by_no_cache(lab: SmallLab, code: str) -> None:
    assert "no-store" in Client().get(f"/invite/?code={code}")["Cache-Control"]


def test_hostile_names_are_text(lab: SmallLab) -> None:
    _, code = invite(lab=lab.lab, role=Role.VIEWER, by=lab.owner, now=now_us(), note=HOSTILE)
    lab.lab.name = HOSTILE
    lab.lab.save()
    for response in (
        Client().get(f"/invite/?code={code}"),
        Client().post("/invite/", {"code": code, "username": HOSTILE, "password": HOSTILE}),
    ):
        assert "<script>alert" not in text_of(response)
