"""/signin/, /login-code/, signing in and out, and where one may be sent on to."""

import re

import pytest
from django.test import Client

from apps.accounts.choices import CodePurpose
from apps.accounts.models import OneTimeCode
from apps.accounts.services.labs import issue_code, spend_code
from apps.core.clock import now_us
from tests.builders import SmallLab
from tests.dashboard.support import assert_needs_sign_in, assert_only, text_of


def _code(lab: SmallLab) -> str:
    return issue_code(purpose=CodePurpose.SIGN_IN, now=now_us(), lab=lab.lab, user=lab.owner)


def test_looking_spends_nothing_the_button_does(lab: SmallLab) -> None:
    code, client = _code(lab), Client()
    assert code in text_of(client.get(f"/signin/?code={code}"))
    assert client.get("/").status_code == 302
    assert OneTimeCode.objects.get().uses_left == 1
    response = client.post("/signin/", {"code": code})
    assert response["Location"] == "/"
    assert client.get("/").status_code == 200
    again = Client().post("/signin/", {"code": code})
    assert again.status_code == 400
    assert "prints a new sign-in link" in text_of(again)


@pytest.mark.parametrize(
    ("wanted", "location"),
    [
    ("/runs/?text=a", "/runs/?text=a"), ("https://evil.example/", "/"), ("//evil.example/", "/"),
    ("javascript:alert(1)", "/"), ("/\\evil.example", "/"), ("", "/"),
],
)  # fmt: skip
def test_no_way_leads_off_this_site(lab: SmallLab, wanted: str, location: str) -> None:
    assert Client().post("/signin/", {"code": _code(lab), "next": wanted})["Location"] == location
    form = {"login": lab.owner.username, "password": "correct horse battery", "next": wanted}
    assert Client().post("/accounts/login/", form)["Location"] == location


def test_a_person_who_left_cannot_come_in(lab: SmallLab) -> None:
    lab.owner.is_active = False
    lab.owner.save()
    client = Client()
    assert client.post("/signin/", {"code": _code(lab)}).status_code == 400
    assert client.get("/").status_code == 302


def test_wrong_password_is_told_without_saying_which(lab: SmallLab) -> None:
    response = Client().post("/accounts/login/", {"login": lab.owner.username, "password": "wrong"})
    known = re.sub(r"csrf\w+. value=.[^\"]+", "", text_of(response)).replace(lab.owner.username, "")
    response = Client().post("/accounts/login/", {"login": "nobody", "password": "wrong"})
    unknown = re.sub(r"csrf\w+. value=.[^\"]+", "", text_of(response)).replace("nobody", "")
    errors = re.compile(r'role="alert">(.*?)</div>', re.DOTALL)
    assert errors.findall(known) == errors.findall(unknown) != []


def test_sign_out_needs_a_post(lab: SmallLab, owner: Client) -> None:
    assert "Sign out?" in text_of(owner.get("/accounts/logout/"))
    assert owner.get("/").status_code == 200
    owner.post("/accounts/logout/")
    assert owner.get("/").status_code == 302


def test_nobody_signs_up_alone(db: None) -> None:
    page = text_of(Client().get("/accounts/signup/"))
    assert 'name="password1"' not in page


def test_login_code_for_a_terminal(lab: SmallLab, owner: Client) -> None:
    assert_needs_sign_in("/login-code/")
    assert_only(owner, "/login-code/", "GET", "POST")
    assert 'data-action="create-code"' in text_of(owner.get("/login-code/"))
    assert not OneTimeCode.objects.exists()
    page = text_of(owner.post("/login-code/"))
    assert "labcarbon-collect login http" in page
    found = re.search(r'id="code">([A-Z0-9-]+)<', page)
    assert found
    assert spend_code(purpose=CodePurpose.LOGIN, code=found[1], now=now_us()).user == lab.owner


def test_signin_methods(db: None) -> None:
    assert_only(Client(), "/signin/", "GET", "POST")
