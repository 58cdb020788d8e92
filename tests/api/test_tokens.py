"""Tokens: refused without a query where their check digits are wrong; revoked, expired and left
at once.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.authentication import forget_tokens
from apps.accounts.choices import Role
from apps.accounts.credentials import BASE62, compose_token, keyed_digest, parse_token
from apps.accounts.models import Membership, Token
from apps.core.clock import now_us
from tests.api.conftest import Caller, Labs
from tests.api.test_runs import FACTS, RUN

Refused = Callable[..., dict[str, Any]]


def _queries(call: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as counted:
        call()
    return len(counted)


@given(
    st.integers(0, 62**8 - 1),
    st.integers(0, 62**43 - 1),
    st.sampled_from(("node", "user")),
    st.data(),
)
def test_one_wrong_character_is_seen_from_the_token_alone(
    number: int, secret: int, kind: str, data: st.DataObject
) -> None:
    token = compose_token(kind, number, secret)
    parts = parse_token(token)
    assert parts is not None
    assert (parts.kind, len(parts.public_id), len(parts.secret)) == (kind, 8, 43)
    at = data.draw(st.integers(3, len(token) - 1))
    other = data.draw(st.sampled_from(BASE62).filter(lambda letter: letter != token[at]))
    assert parse_token(token[:at] + other + token[at + 1 :]) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "lc_user_a_b",
        "lc_node_" + "a" * 8 + "_" + "a" * 49,
        "lc_üser_" + "a" * 8 + "_" + "a" * 49,
        "a" * 10**5,
    ],
)
def test_nonsense_costs_no_query(labs: Labs, refused: Refused, text: str) -> None:
    if text.isascii():
        assert _queries(lambda: refused(Caller(text or " ")("GET", "runs/"), 401)) == 0
    assert parse_token(text) is None


def test_well_formed_but_unknown(labs: Labs, refused: Refused) -> None:
    refused(Caller(compose_token("user", 5, 5))("GET", "runs/"), 401, "bad_token")


def test_a_known_id_with_another_secret(labs: Labs, refused: Refused) -> None:
    assert labs.member.token is not None
    parts = parse_token(labs.member.token)
    assert parts is not None
    number = 0
    for letter in parts.public_id:
        number = number * 62 + BASE62.index(letter)
    forged = compose_token("user", number, 12345)
    assert parse_token(forged).public_id == parts.public_id  # type: ignore[union-attr]
    refused(Caller(forged)("GET", "runs/"), 401, "bad_token")


@pytest.mark.parametrize("who", ["member", "node"])
def test_revoked(labs: Labs, refused: Refused, who: str) -> None:
    caller = getattr(labs, who)
    path = "config/" if who == "node" else "runs/"
    assert caller("GET", path).status_code == 200
    Token.objects.update(revoked_us=now_us())
    forget_tokens()  # another process forgets by itself within ten seconds
    assert "revoked" in refused(caller("GET", path), 401)["message"]


def test_expired(labs: Labs, refused: Refused) -> None:
    Token.objects.update(expires_us=now_us() + 3_600_000_000)
    assert labs.member("GET", "runs/").status_code == 200
    Token.objects.update(expires_us=now_us())
    assert "expired" in refused(labs.member("GET", "runs/"), 401)["message"]


def test_a_member_who_was_removed_is_refused_at_once(labs: Labs, refused: Refused) -> None:
    assert labs.member("GET", "runs/").status_code == 200
    Membership.objects.filter(lab=labs.ours.lab, role=Role.MEMBER).delete()
    refused(labs.member("GET", "runs/"), 401)


def test_a_person_who_was_deactivated_is_refused_at_once(labs: Labs, refused: Refused) -> None:
    asks = labs.member
    member = Membership.objects.get(lab=labs.ours.lab, role=Role.MEMBER).user
    member.is_active = False
    member.save()
    refused(asks("GET", "runs/"), 401)


def test_a_token_never_exceeds_its_owners_present_role(labs: Labs, refused: Refused) -> None:
    assert labs.member("PUT", f"runs/{RUN}/", FACTS).status_code == 200
    Membership.objects.filter(lab=labs.ours.lab, role=Role.MEMBER).update(role=Role.VIEWER)
    refused(labs.member("PUT", f"runs/{RUN}/", FACTS), 403)
    assert labs.member("GET", "runs/").status_code == 200


def test_a_wrong_pepper(labs: Labs, refused: Refused, settings: Any) -> None:
    member = labs.member
    settings.TOKEN_PEPPERS = {2: b"another pepper of 16 bytes"}
    refused(member("GET", "runs/"), 401)
    settings.TOKEN_PEPPERS = {}
    refused(member("GET", "runs/"), 401)


def test_an_older_pepper_still_verifies(labs: Labs, settings: Any) -> None:
    member = labs.member
    assert set(Token.objects.values_list("pepper", flat=True)) == {2}
    settings.TOKEN_PEPPERS = {**settings.TOKEN_PEPPERS, 3: b"a fresh pepper of 16 bytes"}
    assert member("GET", "runs/").status_code == 200


def test_only_a_keyed_digest_is_stored(labs: Labs, settings: Any) -> None:
    assert labs.member.token is not None
    digests = set(Token.objects.values_list("digest", flat=True))
    assert keyed_digest(settings.TOKEN_PEPPERS[2], labs.member.token) in digests
    everything = str(list(Token.objects.values()))
    assert labs.member.token[-49:-6] not in everything


@pytest.mark.parametrize("name", ["token", "access_token", "api_key", "Authorization"])
def test_a_token_in_the_address_or_a_cookie_is_not_looked_at(
    labs: Labs, refused: Refused, name: str
) -> None:
    refused(labs.nobody("GET", f"config/?{name}={labs.node.token}"), 401)
    client = Client()
    client.cookies[name] = labs.node.token or ""
    refused(Caller(None, client)("GET", "config/"), 401)


@pytest.mark.parametrize("scheme", ["Basic", "Token", "", "Bearer Bearer"])
def test_other_schemes(labs: Labs, refused: Refused, scheme: str) -> None:
    refused(labs.nobody("GET", "config/", Authorization=f"{scheme} {labs.node.token}".strip()), 401)


def test_the_scheme_is_read_in_any_case(labs: Labs) -> None:
    assert (
        labs.nobody("GET", "config/", Authorization=f"bearer {labs.node.token}").status_code == 200
    )


def test_last_use_is_noted(labs: Labs) -> None:
    before = now_us()
    assert labs.member("GET", "runs/").status_code == 200
    assert Token.objects.filter(last_used_us__gte=before).count() == 1


def test_tokens_are_not_logged(labs: Labs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    labs.member("GET", "runs/")
    labs.node("POST", "ingest/", b"nonsense")
    Caller(compose_token("user", 5, 5))("GET", "runs/")
    for caller in (labs.member, labs.node):
        assert caller.token is not None
        assert caller.token[-49:-6] not in caplog.text
