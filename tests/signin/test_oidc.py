"""Sign-in by OpenID Connect, over real HTTP: a real server, and a real provider as a second
process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest

from tests.signin.browser import Browser, refused
from tests.signin.conftest import SignIn
from tests.signin.go_between import GoBetween
from tests.signin.provider.people import CLIENT_SECRET
from tests.signin.totp import code_now

Open = Callable[[], Browser]


def _query(address: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(address).query))


def _changed(address: str, **changes: str) -> str:
    return address.partition("?")[0] + "?" + urlencode({**_query(address), **changes})


def test_a_good_sign_in(ours: SignIn, between: GoBetween, browser: Open) -> None:
    ada = browser()
    assert "Sign in with Example University" in ada.get("/accounts/login/").text
    address = ada.to_provider("/accounts/login/?next=/runs/")
    asked = _query(address)
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["code_challenge"]) == 43
    assert len(asked["nonce"]) == 43
    assert asked["redirect_uri"] == f"{ours.url}/accounts/oidc/callback/"
    reply = ada.get(ada.at_provider(address, "ada"))
    assert urlsplit(reply.url).path == "/runs/"
    assert ada.signed_in
    assert ours.rows("SELECT count(*) FROM accounts_user WHERE email LIKE 'ada@%'") == [(1,)]
    ((issuer, kept),) = ours.rows(
        "SELECT a.provider, a.extra_data FROM socialaccount_socialaccount a JOIN accounts_user u "
        "ON u.id = a.user_id "
        "WHERE u.username = 'ada'"
    )
    assert issuer == between.issuer
    assert set(json.loads(kept)) == {"email", "name", "preferred_username"}
    assert ours.rows("SELECT count(*) FROM socialaccount_socialtoken") == [(0,)]
    ((_, _, body),) = [one for one in between.asked if one[1] == "/o/token/"]
    sent = parse_qs(body.decode())
    assert sent["client_secret"] == [CLIENT_SECRET]
    assert len(sent["code_verifier"][0]) >= 43


def test_the_second_time_the_link_is_used(ours: SignIn, browser: Open) -> None:
    before = None
    for _ in range(2):
        ada = browser()
        assert urlsplit(ada.come_back("ada").url).path == "/"
        assert ada.signed_in
        before = before or ours.accounts()
    assert ours.accounts() == before


def test_another_state_is_refused(browser: Open) -> None:
    ada = browser()
    back = ada.at_provider(ada.to_provider(), "ada")
    refused(ada, ada.get(_changed(back, state="x" * 16)), 401, "started in another browser")


def test_a_state_of_another_browser_is_refused(browser: Open) -> None:
    """Who is sent the address of somebody else's finished sign-in does not become that person."""
    mallory, victim = browser(), browser()
    back = mallory.at_provider(mallory.to_provider(), "gus")
    refused(victim, victim.get(back), 401, "started in another browser")


def test_a_code_works_once(browser: Open) -> None:
    ada = browser()
    back = ada.at_provider(ada.to_provider(), "ada")
    ada.get(back)
    other = browser()
    other.web.cookies.update(ada.web.cookies)
    again = other.get(back)
    assert again.status_code == 401, "the state was spent, too"
    fresh = browser()
    replayed = _changed(back, state=_query(fresh.to_provider())["state"])
    refused(fresh, fresh.get(replayed), 401, "rejected the code")


def test_a_stolen_code_is_of_no_use_in_another_session(browser: Open) -> None:
    """PKCE: the code of Ada's sign-in, not used yet, put into Mallory's own."""
    ada, mallory = browser(), browser()
    stolen = _query(ada.at_provider(ada.to_provider(), "ada"))["code"]
    own = mallory.at_provider(mallory.to_provider(), "gus")
    refused(mallory, mallory.get(_changed(own, code=stolen)), 401, "rejected the code")


def test_whoever_turns_back_is_sent_to_the_sign_in_page(browser: Open) -> None:
    ada = browser()
    state = _query(ada.to_provider())["state"]
    reply = ada.get(f"/accounts/oidc/callback/?error=access_denied&state={state}")
    assert urlsplit(reply.url).path == "/accounts/login/"
    assert "Sign-in at Example University was cancelled" in reply.text


def test_the_address_bar_adds_nothing_to_what_the_provider_is_asked(browser: Open) -> None:
    ada = browser()
    page = ada.get(
        "/accounts/oidc/login/?auth_params=nonce%3Dmine%26prompt%3Dnone&scope=admin&"
        "process=redirect"
    )
    going = ada.web.post(
        page.url,
        {"csrfmiddlewaretoken": ada._csrf(page)},
        headers={"Referer": page.url},
        timeout=30,
    )
    asked = _query(re.search(r"0; url=([^\"]+)\"", going.text)[1].replace("&amp;", "&"))  # type: ignore[index]
    assert asked["nonce"] != "mine"
    assert "prompt" not in asked
    assert set(asked["scope"].split()) == {"openid", "profile", "email"}


# Who gets in.


@pytest.mark.parametrize("name", ["eve", "fay"])
def test_an_unverified_address_is_refused_with_the_reason(
    ours: SignIn, browser: Open, name: str
) -> None:
    someone, before = browser(), ours.accounts()
    reply = someone.come_back(name)
    refused(someone, reply, 403, "has not verified that ada@lab.example is your address")
    assert ours.accounts() == before


def test_a_stranger_is_told_whom_to_ask_and_leaves_nothing_behind(
    ours: SignIn, browser: Open
) -> None:
    gus, before = browser(), ours.accounts()
    refused(
        gus,
        gus.come_back("gus"),
        403,
        (
            "You are not a member of a lab on this server: ask an admin to invite "
            "gus@elsewhere.example."
        ),
    )
    assert ours.accounts() == before


def test_whoever_is_invited_comes_in_and_stays(ours: SignIn, browser: Open) -> None:
    kim = browser()
    assert kim.come_back("kim").status_code == 200
    assert "Lab" in kim.get("/runs/").text
    found = (
        "SELECT m.role, u.email FROM accounts_membership m JOIN accounts_user u ON u.id = "
        "m.user_id WHERE u.username = 'kim'"
    )
    assert ours.rows(found) == [("viewer", "kim@lab.example")]
    again = browser()
    again.come_back("kim")
    assert again.signed_in


def test_an_address_that_nobody_vouched_for_opens_no_account(ours: SignIn, browser: Open) -> None:
    """Whoever wrote Bob's address into an account may not be Bob, and would have Bob work in
    their account.
    """
    bob, before = browser(), ours.accounts()
    refused(bob, bob.come_back("bob"), 403, "link Example University under Account security")
    assert ours.accounts() == before


def test_an_account_is_linked_from_inside_and_unlinked(ours: SignIn, browser: Open) -> None:
    cleo = browser()
    cleo.password("cleo", "cleo of the lab")
    back = cleo.at_provider(cleo.to_provider("/accounts/security/"), "cleo")
    asked = cleo.get(back)
    assert urlsplit(asked.url).path == "/accounts/reauthenticate/", (
        "an open browser is not enough to link an identity"
    )
    page = cleo.send(asked, "/accounts/reauthenticate/", password="cleo of the lab")
    assert "Linked as cleo@lab.example" in page.text
    again = browser()
    again.come_back("cleo")
    assert again.signed_in
    gone = cleo.send(cleo.get("/accounts/security/"), "/accounts/oidc/unlink/")
    assert "Account unlinked" in gone.text
    refused(third := browser(), third.come_back("cleo"), 403, "You are not a member")


def test_the_second_factor_is_asked_after_the_provider_too(browser: Open) -> None:
    dan = browser()
    page = dan.come_back("dan")
    assert urlsplit(page.url).path == "/accounts/security/code/"
    assert not dan.signed_in
    assert "This code is wrong." in dan.send(page, "/accounts/security/code/", code="000000").text
    dan.send(page, "/accounts/security/code/", code=code_now("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"))
    assert dan.signed_in


def test_a_closed_account_stays_closed(ours: SignIn, browser: Open) -> None:
    ours.shell(
        "from apps.accounts.models import User; "
        "User.objects.filter(username='hal').update(is_active=False)"
    )
    hal = browser()
    assert "This account is deactivated" in hal.come_back("hal").text
    assert not hal.signed_in


def test_nothing_secret_is_in_the_log(ours: SignIn, browser: Open) -> None:
    ada = browser()
    back = ada.at_provider(ada.to_provider(), "ada")
    ada.get(back)
    refused(gus := browser(), gus.come_back("gus"), 403, "You are not a member")
    said = ours.log("web").read_text(encoding="utf-8")
    assert "refused" in said
    for secret in (CLIENT_SECRET, "eyJ"):
        assert secret not in said
