"""Headers of every answer; forged hosts and proxies; forms without their secret."""

import re

import pytest
from django.core.cache import cache
from django.test import Client

from apps.fleet.models import SitePue
from tests.attacks.conftest import RUN, World
from tests.attacks.routes import address, routes

ROUTES = sorted(route for route in set(routes()) if "logout" not in route)


FORGED = {
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-For": "127.0.0.1",
    "Forwarded": "host=evil.example",
}


@pytest.mark.django_db
def test_no_answer_may_be_framed_sniffed_or_run_foreign_code_nor_believes_a_stranger_about_proxies(
    world: World,
) -> None:
    for route in ROUTES:
        for visitor in ("anonymous", "admin", "token"):
            response = world.visitors[visitor].get(address(route, world.ours, RUN), headers=FORGED)
            where = (route, visitor, response.status_code)
            assert response["X-Frame-Options"] == "DENY", where
            assert response["X-Content-Type-Options"] == "nosniff", where
            assert response["Referrer-Policy"] == "same-origin", where
            assert "no-store" in response["Cache-Control"], where
            policy = dict(
                part.strip().partition(" ")[::2]
                for part in response["Content-Security-Policy"].split(";")
                if part.strip()
            )
            assert policy["default-src"] == "'none'", where
            assert policy["frame-ancestors"] == "'none'", where
            assert policy["script-src"] == "'self'", where
            assert policy["style-src"] == "'self'", where
            assert policy["base-uri"] == "'none'", where
            assert "form-action" in policy, where
            assert "unsafe-eval" not in response["Content-Security-Policy"], where
            assert "http" not in response["Content-Security-Policy"], where
            text = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
            assert b"evil.example" not in text, where
            assert "evil.example" not in response.get("Location", ""), where


@pytest.mark.django_db
@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost:80@evil.example", "evil.example\t"],
)
def test_a_forged_host_is_refused(host: str) -> None:
    for route in ("/", "/accounts/login/", "/api/v1/runs/"):
        assert (
            Client(raise_request_exception=False).get(route, headers={"Host": host}).status_code
            == 400
        )


@pytest.mark.django_db
def test_every_form_and_every_session_call_needs_its_secret(world: World) -> None:
    """A page elsewhere that posts into a signed-in browser changes nothing."""
    for visitor in ("admin", "anonymous"):
        client = world.visitors[visitor]
        strict = Client(enforce_csrf_checks=True, raise_request_exception=False)
        strict.cookies = client.cookies
        for route in ROUTES:
            if route in {
                "/api/v1/enrol/",
                "/api/v1/login/",
            }:  # a code, and no session, is what counts there
                continue
            by_token = route.startswith(("/api/", "/codecarbon/"))
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                path = address(route, world.ours, RUN)
                response = strict.generic(
                    method, path, b"x=1", content_type="application/x-www-form-urlencoded"
                )
                assert response.status_code in {401, 403, 405, 409}, (
                    visitor,
                    method,
                    route,
                    response.status_code,
                )
                if not by_token:
                    assert response.status_code in {403, 405}, (
                        visitor,
                        method,
                        route,
                        response.status_code,
                    )
    assert SitePue.objects.filter(site=world.ours.site).count() == 1


@pytest.mark.django_db
def test_the_session_cookie_is_kept_from_scripts(world: World) -> None:
    client = Client()
    reply = client.post(
        "/accounts/login/",
        {"login": world.ours.owner.username, "password": "correct horse battery"},
    )
    assert reply.status_code == 302
    cookie = client.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


@pytest.mark.django_db
def test_guessing_a_password_is_slowed_down_and_tells_nothing(world: World) -> None:
    name = world.ours.owner.username

    def tries(login: str) -> list[bytes]:
        answers = []
        for _ in range(7):
            reply = Client().post("/accounts/login/", {"login": login, "password": "wrong"})
            answers.append(reply.content.replace(login.encode(), b"NAME"))
        return answers

    unknown = tries("nobody-here")
    cache.clear()
    known = tries(name)
    strip = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]+"')
    assert [strip.sub(b"", text) for text in known] == [strip.sub(b"", text) for text in unknown]
    right = Client().post("/accounts/login/", {"login": name, "password": "correct horse battery"})
    assert right.status_code != 302, "after many wrong guesses even the right one waits"


@pytest.mark.django_db
def test_nobody_signs_up_by_themselves(db: None, world: World) -> None:
    from apps.accounts.models import User

    before = User.objects.count()
    body = {
        "username": "mallory",
        "password1": "correct horse battery",
        "password2": "correct horse battery",
    }
    reply = Client().post("/accounts/signup/", body)
    assert reply.status_code in {200, 403}
    assert User.objects.count() == before


@pytest.mark.django_db
def test_the_setup_page_is_closed_after_the_first_lab(world: World) -> None:
    from apps.accounts.models import Lab

    before = Lab.objects.count()
    body = {
        "code": "AAAAA",
        "lab": "Evil",
        "username": "mallory",
        "password": "correct horse battery",
        "no_zone": "1",
    }
    assert Client().post("/setup/", body).status_code == 409
    assert Lab.objects.count() == before


@pytest.mark.django_db
def test_no_address_promises_a_mail_that_nobody_sends(world: World) -> None:
    assert not any("reset" in route or "email" in route for route in ROUTES)
    assert b"reset" not in Client().get("/accounts/login/").content.lower()
