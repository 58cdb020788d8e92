"""What a provider must not get away with: each lie is told over HTTP, in an otherwise honest
sign-in of Ada.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.signin.browser import Browser, refused
from tests.signin.conftest import SignIn
from tests.signin.go_between import GoBetween, Lie, about
from tests.signin.provider.people import CLIENT_ID

Open = Callable[[], Browser]
TOKEN, USERINFO, DISCOVERY = "/o/token/", "/o/userinfo/", "/o/.well-known/openid-configuration"


def _resigned(
    key: rsa.RSAPrivateKey, change: Callable[[dict[str, Any]], None], **header: Any
) -> Lie:
    """Return a lie in which the ID token is changed and signed again, by default with the
    provider's own key.
    """

    def lie(answer: dict[str, Any]) -> None:
        claims = jwt.decode(answer["id_token"], options={"verify_signature": False})
        kid = jwt.get_unverified_header(answer["id_token"])["kid"]
        change(claims)
        answer["id_token"] = jwt.encode(claims, key, "RS256", {"kid": kid, **header})

    return about(lie)


def _unsigned(answer: dict[str, Any]) -> None:
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    answer["id_token"] = f"{header}.{answer['id_token'].split('.')[1]}."


def _cut(answer: dict[str, Any]) -> None:
    """The signature of the token, with other letters in it."""
    head, body, signature = answer["id_token"].split(".")
    answer["id_token"] = f"{head}.{body}.{signature[:8][::-1].swapcase()}{signature[8:]}"


def _drop(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda claims: claims.pop(name)


def _set(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda claims: claims.update(values)


HONEST = "(nothing changed)"
LIES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "another nonce": (_set(nonce="of-an-earlier-sign-in"), "belongs to another sign-in"),
    "no nonce": (_drop("nonce"), "belongs to another sign-in"),
    "another audience": (_set(aud="another-application"), "made for another application"),
    "two audiences, meant for the other": (
        _set(aud=[CLIENT_ID, "b"], azp="b"),
        "made for another application",
    ),
    "two audiences, meant for nobody": (_set(aud=[CLIENT_ID, "b"]), "made for another application"),
    "another issuer": (_set(iss="https://evil.example/o"), "made by another provider"),
    "expired": (_set(exp=int(time.time()) - 3600, iat=int(time.time()) - 7200), "has expired"),
    "never expires": (_drop("exp"), "cannot be read"),
    "of tomorrow": (
        _set(iat=int(time.time()) + 86_400, nbf=int(time.time()) + 86_400),
        "dated in the future",
    ),
    "nobody": (_set(sub=""), "no valid subject"),
    "no subject": (_drop("sub"), "cannot be read"),
    "a subject as long as a book": (_set(sub="1" * 5000), "no valid subject"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_identity_token_is_refused(
    ours: SignIn, between: GoBetween, browser: Open, provider_key: rsa.RSAPrivateKey, lie: str
) -> None:
    change, words = LIES[lie]
    ada, before = browser(), ours.accounts()
    with between.lying(TOKEN, _resigned(provider_key, change)):
        refused(ada, ada.come_back("ada"), 401, words)
    assert ours.accounts() == before


def test_the_lies_are_refused_for_what_they_change(
    between: GoBetween, browser: Open, provider_key: rsa.RSAPrivateKey
) -> None:
    """Signed again and otherwise as it was, the token is good: so each lie above was refused for
    its own sake.
    """
    ada = browser()
    with between.lying(TOKEN, _resigned(provider_key, lambda claims: None)):
        ada.come_back("ada")
    assert ada.signed_in


def test_another_key_is_refused(between: GoBetween, browser: Open) -> None:
    forged = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for header in ({}, {"kid": "unheard-of"}):
        ada = browser()
        with between.lying(TOKEN, _resigned(forged, lambda claims: None, **header)):
            refused(ada, ada.come_back("ada"), 401, "not signed with")


def test_no_signature_is_refused(between: GoBetween, browser: Open) -> None:
    for lie, words in (
        (_unsigned, "not accepted"),
        (_cut, "not signed with"),
        (_drop("id_token"), "sent no identity"),
    ):
        ada = browser()
        with between.lying(TOKEN, about(lie)):
            refused(ada, ada.come_back("ada"), 401, words)


def test_the_public_key_is_no_shared_secret(
    between: GoBetween, browser: Open, provider_key: rsa.RSAPrivateKey
) -> None:
    """HS256 with what everybody may read as the secret."""
    pem = provider_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    def lie(answer: dict[str, Any]) -> None:
        head, body, _ = answer["id_token"].split(".")
        kid = json.loads(base64.urlsafe_b64decode(head + "=="))["kid"]
        head = (
            base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": kid}).encode())
            .rstrip(b"=")
            .decode()
        )
        signer = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
        signature = (
            base64.urlsafe_b64encode(signer.sign(f"{head}.{body}".encode(), pem))
            .rstrip(b"=")
            .decode()
        )
        answer["id_token"] = f"{head}.{body}.{signature}"

    ada = browser()
    with between.lying(TOKEN, about(lie)):
        refused(ada, ada.come_back("ada"), 401, "not accepted")


def test_userinfo_of_somebody_else_is_refused(
    between: GoBetween, browser: Open, provider_key: rsa.RSAPrivateKey
) -> None:
    """Without a mail address in the ID token the userinfo endpoint is asked; it must be about
    the same person.
    """
    quiet = _resigned(provider_key, _drop("email"))
    ada = browser()
    with between.lying(TOKEN, quiet):
        ada.come_back("ada")
    assert ada.signed_in
    mallory = browser()
    with (
        between.lying(TOKEN, quiet),
        between.lying(USERINFO, about(_set(sub="1", email="ada@lab.example"))),
    ):
        refused(mallory, mallory.come_back("gus"), 401, "belongs to another person")


def test_another_issuer_in_the_discovery_document_is_refused(
    between: GoBetween, browser: Open
) -> None:
    ada = browser()
    with between.lying(DISCOVERY, about(_set(issuer="https://evil.example"))):
        reply = ada.send(ada.get("/accounts/login/"), "/accounts/oidc/login/")
    refused(ada, reply, 401, "differs from LABCARBON_OIDC_ISSUER")


@pytest.mark.parametrize(
    "body",
    [b"<html>down for maintenance</html>", b"[]", b'{"issuer": 5}', b"x" * 3_000_000],
    ids=["html", "list", "odd", "long"],
)
def test_a_provider_that_answers_nonsense_breaks_no_page(
    between: GoBetween, browser: Open, body: bytes
) -> None:
    for path in (DISCOVERY, TOKEN, "/o/.well-known/jwks.json"):
        ada = browser()
        if path == DISCOVERY:
            with between.lying(path, lambda _: body):
                reply = ada.send(ada.get("/accounts/login/"), "/accounts/oidc/login/")
        else:
            back = ada.at_provider(ada.to_provider(), "ada")
            with between.lying(path, lambda _: body):
                reply = ada.get(back)
        assert reply.status_code == 401, (path, reply.text)
        assert not ada.signed_in


def test_the_client_secret_is_sent_to_nobody_else(between: GoBetween, browser: Open) -> None:
    ada = browser()
    back = ada.at_provider(ada.to_provider(), "ada")
    between.redirects[TOKEN] = f"{between.issuer}/elsewhere/"
    try:
        refused(ada, ada.get(back), 401, "rejected the code")
    finally:
        del between.redirects[TOKEN]
    assert [path for _, path, _ in between.asked if "elsewhere" in path] == []
