"""Format of tokens and one-time codes, and the chain of the audit log. Pure: random numbers are
arguments.

Token: ``lc_<kind>_<8 id>_<43 secret><6 check>``, base62, check = CRC-32 of all before it. Code: 4
groups of 5 letters and digits without look-alikes (103 bits of base 32 would be 20 characters × 5
bits = 100 bits).
"""

import hashlib
import hmac
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CODE_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ0123456789"  # Crockford's base 32: no I, L, O, U
ID_LENGTH, SECRET_LENGTH, CHECK_LENGTH = 8, 43, 6


def base62(number: int, length: int) -> str:
    """Return ``number`` in base 62, padded to ``length``."""
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(BASE62[digit])
    return "".join(reversed(digits))


@dataclass(frozen=True)
class TokenParts:
    """The parts of a well-formed token."""

    kind: str
    public_id: str
    secret: str


def compose_token(kind: str, id_number: int, secret_number: int) -> str:
    """Return the text of a token from two random numbers."""
    body = f"lc_{kind}_{base62(id_number, ID_LENGTH)}_{base62(secret_number, SECRET_LENGTH)}"
    return body + base62(zlib.crc32(body.encode()), CHECK_LENGTH)


def parse_token(text: str) -> TokenParts | None:
    """Return the parts of ``text``, or None if its form or check digits are wrong (no query is
    needed to refuse it).
    """
    parts = text.split("_")
    if (
        len(parts) != 4
        or parts[0] != "lc"
        or len(parts[2]) != ID_LENGTH
        or len(parts[3]) != SECRET_LENGTH + CHECK_LENGTH
    ):
        return None
    body, check = text[:-CHECK_LENGTH], text[-CHECK_LENGTH:]
    if not text.isascii() or base62(zlib.crc32(body.encode()), CHECK_LENGTH) != check:
        return None
    return TokenParts(kind=parts[1], public_id=parts[2], secret=parts[3][:SECRET_LENGTH])


def keyed_digest(pepper: bytes, text: str) -> str:
    """Return HMAC-SHA-256 of ``text`` under ``pepper``, in hexadecimal."""
    return hmac.new(pepper, text.encode(), hashlib.sha256).hexdigest()


def compose_code(number: int) -> str:
    """Return a one-time code such as ``7KQ2M-…`` (100 bits of ``number``)."""
    letters = "".join(CODE_ALPHABET[(number >> (5 * i)) & 31] for i in range(20))
    return "-".join(letters[i : i + 5] for i in range(0, 20, 5))


def normalised_code(text: str) -> str:
    """Return an entered code for comparison: upper case, similar characters replaced, separators
    removed.
    """
    upper = text.strip().upper().replace("O", "0").replace("I", "1").replace("L", "1")
    return "".join(letter for letter in upper if letter in CODE_ALPHABET)


def entry_digest(fields: Mapping[str, Any]) -> str:
    """Return SHA-256, in hexadecimal, of an entry of the audit log with the digest of the entry
    before it.

    Canonical JSON: keys sorted, no spaces, everything beyond ASCII escaped, so that any program can
    do it again.
    """
    text = json.dumps(
        fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()
