"""User names as they are sent to the server: unchanged, as pseudonyms, or not at all.

``LABCARBON_USERS`` is ``keep`` (default), ``hash`` or ``drop``. Without it the setting in
/etc/labcarbon/users applies, to the daemon and to the ``run`` command of every user of the machine.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pwd
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.node_identity import ConfigurationError, read_secret

KEEP, HASH, DROP = "keep", "hash", "drop"
DROPPED = "-"
MACHINE_SETTING = Path("/etc/labcarbon/users")
MACHINE_KEY = Path("/etc/labcarbon/users-key")
_KEY_CHARACTERS = 32
_PSEUDONYM_DIGITS = 12  # 48 bits: the chance of a collision among 10 000 people is 2 in 10 million
PSEUDONYM = re.compile(r"u-[0-9a-f]{12}")
# The path of a home folder contains the user's name.
_HOME = re.compile(r"(?<![\w.-])(/(?:home|Users)/|~)([A-Za-z_][\w.-]*)")


@dataclass(frozen=True)
class UserNames:
    """How user names are replaced. ``key`` is set in ``hash`` mode only."""

    mode: str = KEEP
    key: bytes = field(default=b"", repr=False)

    def public_name(self, name: str) -> str:
        """Return the name to send: itself, ``u-`` and 12 hex digits (HMAC-SHA-256), or ``-``."""
        if self.mode == KEEP or name == DROPPED:
            return name
        if self.mode == DROP:
            return DROPPED
        # The name is hashed, not the uid: uids may differ between nodes.
        digest = hmac.new(
            self.key, b"labcarbon user\0" + name.encode("utf-8", "surrogatepass"), hashlib.sha256
        )
        return f"u-{digest.hexdigest()[:_PSEUDONYM_DIGITS]}"

    @property
    def fingerprint(self) -> str:
        """Eight digits that identify the key without revealing it. Nodes with equal digits produce
        equal pseudonyms.
        """
        return (
            hmac.new(self.key, b"labcarbon users key", hashlib.sha256).hexdigest()[:8]
            if self.key
            else ""
        )

    @property
    def stamp(self) -> str:
        """Mode and key fingerprint, to detect a change."""
        return f"{self.mode} {self.fingerprint}".strip()

    def mask(self, value: Any, name: str) -> Any:
        """Return ``value`` (texts in lists and mappings) without the word ``name`` and without
        names of home folders.
        """
        return value if self.mode == KEEP else replace_name(value, name, self.public_name(name))

    def mask_run(self, facts: Mapping[str, Any], name: str) -> Dict[str, Any]:
        """Return the facts of a run or job of user ``name`` as they may be sent. The project, a
        chosen name, is not masked.
        """
        masked = self.mask(
            {key: value for key, value in facts.items() if key not in ("project", "user")}, name
        )
        return {**masked, "project": facts.get("project"), "user": self.public_name(name)[:100]}

    def mask_job(self, body: Mapping[str, Any], name: str) -> Dict[str, Any]:
        """Return a scheduler's facts of a job of user ``name`` as they may be sent. No keys are
        added.
        """
        masked = body if self.mode == KEEP else self.mask_run(body, name)
        return {key: masked[key] for key in body}


KEEP_NAMES = UserNames()


def replace_name(value: Any, name: str, replacement: str) -> Any:
    """Replace the word ``name`` by ``replacement`` in every text, and names of other home folders
    by ``-``.
    """
    if isinstance(value, str):
        pattern = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])")
        without_homes = _HOME.sub(
            lambda match: match.group(1) + (replacement if match.group(2) == name else DROPPED),
            value,
        )
        return pattern.sub(lambda _: replacement, without_homes)
    if isinstance(value, Mapping):
        return {
            replace_name(key, name, replacement): replace_name(item, name, replacement)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [replace_name(item, name, replacement) for item in value]
    return value


def user_names(environ: Mapping[str, str]) -> UserNames:
    """Return the setting of this machine. Raises ConfigurationError for an unknown mode, or
    ``hash`` without a usable key.
    """
    mode = read_mode(environ)
    return UserNames(mode, _key(environ)) if mode == HASH else UserNames(mode)


def read_mode(environ: Mapping[str, str]) -> str:
    """Return ``keep``, ``hash`` or ``drop``. Raises ConfigurationError for anything else."""
    mode, origin = environ.get("LABCARBON_USERS", "").strip(), "LABCARBON_USERS"
    if not mode:
        mode, origin = _machine_mode(), str(MACHINE_SETTING)
    if mode not in (KEEP, HASH, DROP):
        raise ConfigurationError(
            f"{origin} is {mode!r}: set keep (clear names), hash (pseudonyms) or drop (no names)"
        )
    return mode


def user_name_of(uid: int) -> str:
    """Return the system's name of ``uid``, or the number without one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _machine_mode() -> str:
    try:
        return MACHINE_SETTING.read_text(encoding="utf-8", errors="replace").strip() or KEEP
    except FileNotFoundError:
        return KEEP
    except OSError as error:
        raise ConfigurationError(
            f"{MACHINE_SETTING} cannot be read ({error.strerror}): chmod 644 {MACHINE_SETTING}"
        ) from error


def _key(environ: Mapping[str, str]) -> bytes:
    """Return the secret shared by all nodes of a lab, so that a person has one pseudonym on all of
    them.
    """
    path = Path(environ.get("LABCARBON_USERS_KEY_FILE") or MACHINE_KEY)
    key: Optional[str] = environ.get("LABCARBON_USERS_KEY", "").strip() or read_secret(path)
    if not key:
        raise ConfigurationError(
            "the mode hash needs a key for user names: create one for the lab and copy it to "
            "every node: "
            f"(umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > {path})  or "
            "set LABCARBON_USERS_KEY"
        )
    if len(key) < _KEY_CHARACTERS:
        raise ConfigurationError(
            f"the key for user names has {len(key)} characters, at least {_KEY_CHARACTERS} are "
            "needed: "
            "python3 -c 'import secrets; print(secrets.token_hex(32))'"
        )
    return key.encode()


def safe_user_names(environ: Mapping[str, str]) -> UserNames:
    """As :func:`user_names`, for a person's own command. It must not fail: after an error, names
    are dropped.
    """
    try:
        return user_names(environ)
    except ConfigurationError:
        return UserNames(DROP)


def current_user_name() -> str:
    """Return the login name of this process."""
    return user_name_of(os.getuid())
