"""Encryption of stored secrets with the token peppers, which are not part of a database backup."""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


class DecryptionError(Exception):
    """A text cannot be decrypted: its pepper was removed, or the text is damaged."""


def _box(purpose: str, number: int) -> Fernet:
    """Return the cipher of a purpose and a token pepper (settings.TOKEN_PEPPERS)."""
    key = hmac.digest(settings.TOKEN_PEPPERS[number], purpose.encode(), "sha256")
    return Fernet(base64.urlsafe_b64encode(key))


def encrypt(purpose: str, text: str) -> str:
    """Return ``<number of the pepper>:<ciphertext>``. The highest pepper encrypts; all decrypt."""
    number = max(settings.TOKEN_PEPPERS)
    return f"{number}:{_box(purpose, number).encrypt(text.encode()).decode()}"


def decrypt(purpose: str, sealed: str) -> str:
    """Return the text that :func:`encrypt` encrypted for the same purpose. Raises
    DecryptionError.
    """
    number, _, text = sealed.partition(":")
    try:
        return _box(purpose, int(number)).decrypt(text.encode()).decode()
    except (KeyError, ValueError, InvalidToken) as error:
        raise DecryptionError from error
