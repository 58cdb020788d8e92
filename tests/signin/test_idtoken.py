"""What must hold of an ID token, without a provider: who signed it, for whom, for which sign-in,
until when.
"""

import json
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
import time_machine
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from apps.accounts.oidc.id_token import Expected, InvalidIdToken, verified_claims

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
EXPECTED = Expected(
    issuer="https://id.example.org/realms/lab", client_id="labcarbon", nonce="n-0S6_WzA2Mj"
)


NOW = 1_793_534_400


@pytest.fixture(autouse=True)
def _at_that_moment() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


def _public(key: Any, algorithm: Any, **more: str) -> dict[str, Any]:
    return {**json.loads(algorithm.to_jwk(key.public_key())), "use": "sig", **more}


RSA = _public(KEY, jwt.algorithms.RSAAlgorithm, kid="r")
EC = _public(CURVE, jwt.algorithms.ECAlgorithm, kid="e")
KEYS = {
    "keys": [
        RSA,
        EC,
        {**RSA, "kid": "for-encryption", "use": "enc"},
        {"kty": "unheard of", "kid": "u"},
        5,
    ]
}


def _claims(**changes: Any) -> dict[str, Any]:
    usual = {
        "iss": EXPECTED.issuer,
        "sub": "248289761001",
        "aud": "labcarbon",
        "exp": NOW + 300,
        "iat": NOW,
    }
    return {**usual, "nonce": EXPECTED.nonce, **changes}


def _token(claims: dict[str, Any], key: Any = KEY, algorithm: str = "RS256", **header: Any) -> str:
    return jwt.encode(claims, key, algorithm, {"kid": "r", **header})


@pytest.mark.parametrize(
    "token",
    [
    _token(_claims()), _token(_claims(), algorithm="PS256"),
    _token(_claims(), CURVE, "ES256", kid="e"), _token(_claims(aud=["labcarbon"])),
    _token(_claims(aud=["labcarbon", "other"], azp="labcarbon")), _token(_claims(exp=NOW - 30)),
],
    ids=["RS256", "PS256", "ES256", "list", "azp", "a clock that is half a minute off"],
)  # fmt: skip
def test_a_good_token_is_believed(token: str) -> None:
    assert verified_claims(token, KEYS, EXPECTED)["sub"] == "248289761001"


@pytest.mark.parametrize(
    ("token", "why"),
    [
    (_token(_claims(), kid="for-encryption"), "a key that the provider publishes"),
    (_token(_claims(), kid="e"), "a key that the provider publishes"),
    (_token(_claims(), kid="u"), "a key that the provider publishes"),
    (_token(_claims(), kid="nowhere"), "a key that the provider publishes"),
    (_token(_claims(), "k" * 64, "HS256"), "not accepted"),
    (_token(_claims(azp="other")), "another application"),
    (_token(_claims(aud=[])), "cannot be read"), (_token(_claims(aud=7)), "another application"),
    (_token(_claims(exp=NOW - 61)), "has expired"), (_token(_claims(exp="soon")), "cannot be read"),
    (_token(_claims(sub="a\x00b")), "no valid subject"),
    (_token(_claims(nonce=None)), "another sign-in"),
    (_token(_claims(nonce=["n-0S6_WzA2Mj"])), "another sign-in"),
    (_token(_claims(iss=EXPECTED.issuer + "/")), "another provider"),
    ("", "sent no identity token"), (None, "sent no identity token"), (7, "sent no identity token"),
    ("a.b.c", "cannot be read"), ("é" * 50, "cannot be read"),
],
    ids=[f"token {i}" for i in range(19)],  # each worker signs them anew
)  # fmt: skip
def test_anything_else_is_refused_with_the_reason(token: object, why: str) -> None:
    with pytest.raises(InvalidIdToken, match=why):
        verified_claims(token, KEYS, EXPECTED)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"keys": 5},
        {"keys": []},
        {"keys": [None, "r"]},
        {"keys": [RSA, RSA]},
        {"keys": [{"kty": "RSA", "kid": "r"}]},
    ],
)
def test_odd_keys_break_nothing(keys: dict[str, Any]) -> None:
    with pytest.raises(InvalidIdToken, match=r"publishes|cannot be read"):
        verified_claims(_token(_claims()), keys, EXPECTED)


def test_without_a_nonce_of_ours_nothing_is_believed() -> None:
    with pytest.raises(InvalidIdToken, match="another sign-in"):
        verified_claims(_token(_claims(nonce="")), KEYS, Expected(EXPECTED.issuer, "labcarbon", ""))


def test_a_token_without_a_key_id_takes_the_only_key() -> None:
    assert verified_claims(jwt.encode(_claims(), KEY, "RS256"), {"keys": [RSA]}, EXPECTED)


def test_a_token_without_a_key_id_is_refused_where_two_keys_fit() -> None:
    with pytest.raises(InvalidIdToken, match="publishes"):
        verified_claims(
            jwt.encode(_claims(), KEY, "RS256"), {"keys": [RSA, {**RSA, "kid": "r2"}]}, EXPECTED
        )
