"""Validation of ID tokens (OpenID Connect Core 1.0, sections 2 and 3.1.3.7).

Pure: token, keys and expectation in, claims out.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from allauth.socialaccount.providers.oauth2.client import OAuth2Error

from apps.core.text import is_unstorable

# Public keys only: never "none", never a secret that both sides know. By algorithm: the kind of key
# it takes.
SIGNED_WITH = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
LEEWAY_S = 60
SUBJECT_LENGTH = 191  # length of the column of a linked identity

_MESSAGES = {
    jwt.ExpiredSignatureError: "has expired",
    jwt.ImmatureSignatureError: "is dated in the future",
    jwt.InvalidAudienceError: "was made for another application",
    jwt.InvalidIssuerError: "was made by another provider",
    jwt.InvalidSignatureError: "is not signed with the provider's key",
}


class InvalidIdToken(OAuth2Error):
    """An invalid ID token. The text contains the reason and no secret."""

    @property
    def message(self) -> str:
        """The text for the page."""
        return str(self)


@dataclass(frozen=True)
class Expected:
    """Expected values of an ID token."""

    issuer: str
    client_id: str
    nonce: str


def _key(keys: Mapping[str, Any], kid: object, kind: str) -> Any:
    """Return the provider's public key of this kind and id; without an id, its only signing key
    of the kind.
    """
    listed = keys.get("keys")
    usable = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    signing = [one for one in usable if one.get("use", "sig") == "sig" and one.get("kty") == kind]
    named = [one for one in signing if kid is None or one.get("kid") == kid]
    if len(named) != 1:
        raise InvalidIdToken(
            "The identity token is not signed with a key that the provider publishes."
        )
    return jwt.PyJWK.from_dict(named[0]).key


def _decoded(token: str, keys: Mapping[str, Any], expected: Expected) -> dict[str, Any]:
    header = jwt.get_unverified_header(token)
    algorithm = str(header.get("alg"))
    if algorithm not in SIGNED_WITH:
        raise InvalidIdToken(
            f"The identity token is signed with {algorithm[:20]!r}, which is not accepted."
        )
    claims: dict[str, Any] = jwt.decode(
        token,
        key=_key(keys, header.get("kid"), SIGNED_WITH[algorithm]),
        algorithms=[algorithm],
        issuer=expected.issuer,
        audience=expected.client_id,
        leeway=LEEWAY_S,
        options={"require": ["iss", "sub", "aud", "exp", "iat"]},
    )
    return claims


def verified_claims(token: object, keys: Mapping[str, Any], expected: Expected) -> dict[str, Any]:
    """Return the claims of an ID token for this server and this sign-in. Raises InvalidIdToken."""
    if not isinstance(token, str) or not token:
        raise InvalidIdToken("The provider sent no identity token.")
    try:
        claims = _decoded(token, keys, expected)
    except (
        jwt.PyJWTError,
        TypeError,
        ValueError,
    ) as error:  # the last two: raised by the library for unusual keys and texts
        message = next(
            (text for kind, text in _MESSAGES.items() if isinstance(error, kind)), "cannot be read"
        )
        raise InvalidIdToken(f"The provider's identity token {message}.") from error
    audience = claims["aud"]
    shared = isinstance(audience, list) and len(audience) > 1
    if (shared or "azp" in claims) and claims.get("azp") != expected.client_id:
        raise InvalidIdToken("The provider's identity token was made for another application.")
    if not expected.nonce or not hmac.compare_digest(
        str(claims.get("nonce", "")).encode(), expected.nonce.encode()
    ):
        raise InvalidIdToken(
            "The provider's identity token belongs to another sign-in than this one."
        )
    subject = claims["sub"]
    if (
        not isinstance(subject, str)
        or not 0 < len(subject) <= SUBJECT_LENGTH
        or is_unstorable(subject)
    ):
        raise InvalidIdToken(
            "The provider's identity token has no valid subject (claim sub is empty or too long)."
        )
    return claims
