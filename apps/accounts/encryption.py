"""Secrets that must be read again, sealed in the database by the token peppers, which no backup of it holds."""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


class DecryptionError(Exception):
    """A sealed text cannot be read: the pepper that sealed it is gone, or it was damaged."""


def _box(purpose: str, number: int) -> Fernet:
    """Return the box of one purpose and token pepper (settings.TOKEN_PEPPERS)."""
    key = hmac.digest(settings.TOKEN_PEPPERS[number], purpose.encode(), "sha256")
    return Fernet(base64.urlsafe_b64encode(key))


def encrypt(purpose: str, text: str) -> str:
    """Return ``<number of the pepper>:<sealed text>``: the highest pepper seals, all open."""
    number = max(settings.TOKEN_PEPPERS)
    return f"{number}:{_box(purpose, number).encrypt(text.encode()).decode()}"


def decrypt(purpose: str, sealed: str) -> str:
    """Return what :func:`seal` sealed for the same purpose. Raises CannotOpen."""
    number, _, text = sealed.partition(":")
    try:
        return _box(purpose, int(number)).decrypt(text.encode()).decode()
    except (KeyError, ValueError, InvalidToken) as error:
        raise DecryptionError from error
