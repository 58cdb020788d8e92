"""How people are named to the server: as the system knows them, by a pseudonym, or not at all.

``LABCARBON_USERS`` is ``keep`` (default), ``hash`` or ``drop``; without it the word in /etc/labcarbon/users counts, which
holds for the daemon and for everybody's ``run`` on that machine.
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

from labcarbon_collect.identity import ConfigurationError, read_secret

KEEP, HASH, DROP = "keep", "hash", "drop"
DROPPED = "-"
MACHINE_SETTING = Path("/etc/labcarbon/users")
MACHINE_KEY = Path("/etc/labcarbon/users-key")
_KEY_CHARACTERS = 32
_PSEUDONYM_DIGITS = 12  # 48 bits: among 10 000 people two share one with a chance of 2 in 10 million
PSEUDONYM = re.compile(r"u-[0-9a-f]{12}")
# A person's name also stands in the path of the home folder.
_HOME = re.compile(r"(?<![\w.-])(/(?:home|Users)/|~)([A-Za-z_][\w.-]*)")


@dataclass(frozen=True)
class UserNames:
    """What is told instead of a user's name. ``key`` is set in ``hash`` mode only."""

    mode: str = KEEP
    key: bytes = field(default=b"", repr=False)

    def public_name(self, name: str) -> str:
        """The name as it may leave this machine: itself, ``u-`` and 12 hex digits (HMAC-SHA-256), or ``-``."""
        if self.mode == KEEP or name == DROPPED:
            return name
        if self.mode == DROP:
            return DROPPED
        # The name is what counts: uids may differ from node to node.
        digest = hmac.new(self.key, b"labcarbon user\0" + name.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"u-{digest.hexdigest()[:_PSEUDONYM_DIGITS]}"

    @property
    def fingerprint(self) -> str:
        """Tells keys apart without telling them: nodes with the same eight digits give the same pseudonyms."""
        return hmac.new(self.key, b"labcarbon users key", hashlib.sha256).hexdigest()[:8] if self.key else ""

    @property
    def stamp(self) -> str:
        """The mode and its key, to notice a change."""
        return f"{self.mode} {self.fingerprint}".strip()

    def mask(self, value: Any, name: str) -> Any:
        """``value`` (texts in lists and mappings) without ``name`` as a whole word and without names of home folders."""
        return value if self.mode == KEEP else replace_name(value, name, self.public_name(name))

    def mask_run(self, facts: Mapping[str, Any], name: str) -> Dict[str, Any]:
        """Facts of a run or job of the user ``name`` as they may be told; the project, which people chose, stays."""
        masked = self.mask({key: value for key, value in facts.items() if key not in ("project", "user")}, name)
        return {**masked, "project": facts.get("project"), "user": self.public_name(name)[:100]}

    def mask_job(self, body: Mapping[str, Any], name: str) -> Dict[str, Any]:
        """What a scheduler says of a job of the user ``name``, as it may be told: nothing is added to it."""
        masked = body if self.mode == KEEP else self.mask_run(body, name)
        return {key: masked[key] for key in body}


KEEP_NAMES = UserNames()


def replace_name(value: Any, name: str, replacement: str) -> Any:
    """``value`` with the whole word ``name`` as ``told`` in every text, and other people's home folders as ``-``."""
    if isinstance(value, str):
        pattern = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])")
        without_homes = _HOME.sub(lambda match: match.group(1) + (replacement if match.group(2) == name else DROPPED), value)
        return pattern.sub(lambda _: replacement, without_homes)
    if isinstance(value, Mapping):
        return {replace_name(key, name, replacement): replace_name(item, name, replacement) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_name(item, name, replacement) for item in value]
    return value


def user_names(environ: Mapping[str, str]) -> UserNames:
    """The setting of this machine. Raises Refused: an unknown word, or ``hash`` without a key that may be used."""
    mode = read_mode(environ)
    return UserNames(mode, _key(environ)) if mode == HASH else UserNames(mode)


def read_mode(environ: Mapping[str, str]) -> str:
    """``keep``, ``hash`` or ``drop``. Raises Refused for any other word."""
    mode, origin = environ.get("LABCARBON_USERS", "").strip(), "LABCARBON_USERS"
    if not mode:
        mode, origin = _machine_mode(), str(MACHINE_SETTING)
    if mode not in (KEEP, HASH, DROP):
        raise ConfigurationError(
            f"{origin} is {mode!r}: write keep (names as they are), hash (pseudonyms) or drop (no names)"
        )
    return mode


def user_name_of(uid: int) -> str:
    """The system's name for ``uid``; the number itself where it has none."""
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
    """The secret that all nodes of a lab share, so that one person has one pseudonym on all of them."""
    path = Path(environ.get("LABCARBON_USERS_KEY_FILE") or MACHINE_KEY)
    key: Optional[str] = environ.get("LABCARBON_USERS_KEY", "").strip() or read_secret(path)
    if not key:
        raise ConfigurationError(
            "user names are to be hashed, but there is no key: make one, once for the whole lab, and copy it to every node: "
            f"(umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > {path})  or set LABCARBON_USERS_KEY"
        )
    if len(key) < _KEY_CHARACTERS:
        raise ConfigurationError(
            f"the key for user names has {len(key)} characters, {_KEY_CHARACTERS} are needed: "
            "python3 -c 'import secrets; print(secrets.token_hex(32))'"
        )
    return key.encode()


def safe_user_names(environ: Mapping[str, str]) -> UserNames:
    """As :func:`user_names`, for a person's own command, which must not fail: what cannot be told rightly is dropped."""
    try:
        return user_names(environ)
    except ConfigurationError:
        return UserNames(DROP)


def current_user_name() -> str:
    """The login name of who runs this."""
    return user_name_of(os.getuid())
