"""Names of erased persons as keyed hashes, and their replacement in texts (ADR 49).

A name is compared as a whole word, without case. It is never stored: HMAC-SHA-256 with a key that
is derived from the token pepper of its row. A row of lab 0 is the user name of an account.

A name can also be an ordinary word (`will`, `adam`). Therefore every name is replaced where a text
is a name by its position: in columns and keys of persons, in consumers, and as a home folder. In
other texts, only those names are replaced that have ``in_texts``.
"""

import hmac
import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from django.conf import settings

from apps.core.models import ErasedName

ACCOUNTS = 0
_ATOM = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?:[^\W_]|[\u0300-\u036f])+"
)
_NAMED_KEY = re.compile(r"(?:proc|container):")
_CONSUMER_START = re.compile(r"(?:proc|container):\Z")
_HOME_START = re.compile(r"/(?:home|homes|users|scratch)/\Z", re.IGNORECASE)
_MAX_CACHED = 50_000


class MissingPepper(Exception):
    """The token pepper of an erased name is not in the settings, so it cannot be recognised."""


def words_of(name: str) -> int:
    """Return the number of words of a name."""
    return len(_ATOM.findall(name))


def name_digest(lab_id: int, name: str, pepper: int) -> str:
    """Return the keyed hash of a name in a lab."""
    try:
        key = hmac.digest(settings.TOKEN_PEPPERS[pepper], b"erased names", "sha256")
    except KeyError as error:
        raise MissingPepper(
            f"Token pepper {pepper} is missing: names of erased persons cannot be recognised. Add "
            "it to LABCARBON_TOKEN_PEPPERS again."
        ) from error
    atoms = list(_ATOM.finditer(name))
    core = name[atoms[0].start() : atoms[-1].end()] if atoms else name
    text = unicodedata.normalize("NFKC", core).casefold()
    return hmac.digest(key, f"{lab_id}\0{text}".encode("utf-8", "replace"), "sha256").hex()


def label_of(number: int) -> str:
    """Return the user name of an erased person."""
    return f"Erased person {number}"


def token_of(number: int, position: int) -> str:
    """Return what replaces a name in texts. ``position``: from 1, of the name of the person."""
    return f"erased-person-{number}" + (f"-{position}" if position > 1 else "")


class Reading(Enum):
    """Where a name is searched in a text."""

    NAME = "everywhere"  # the text is the name of a person
    TEXT = "names of texts everywhere, others as user of a consumer or home folder"
    PATH = "as home folder"
    KEPT = "nowhere"  # identifies a record


# Keys of JSON objects, of uploads and of the database.
_READINGS = {
    **dict.fromkeys(
        ("user", "os_user", "username", "owner", "person", "email", "contact", "admin",
         "invited_by", "objected_by"),
        Reading.NAME,
    ),
    **dict.fromkeys(("path", "path_prefix", "root", "roots", "folder"), Reading.PATH),
    **dict.fromkeys(("project", "requested_project", "slug", "uuid", "digest"), Reading.KEPT),
}  # fmt: skip


class ErasedNames:
    """The erased names of a lab. ``replace`` is the only way in which they are used."""

    def __init__(self, lab_id: int, rows: Iterable[ErasedName]) -> None:
        self._lab_id = lab_id
        own = [row for row in rows if row.lab_id == lab_id]
        self._tokens = {
            row.digest: (token_of(row.number, row.position), row.in_texts) for row in own
        }
        self._peppers = sorted({row.pepper for row in own})
        self._lengths = sorted({row.words for row in own}, reverse=True)
        self._cache: dict[str, tuple[str, bool] | None] = {}

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def text(self, text: str, reading: Reading = Reading.TEXT) -> str:
        """Return a text without erased names."""
        is_searched = self._tokens and reading is not Reading.KEPT
        atoms = list(_ATOM.finditer(text)) if is_searched else []
        parts, end, i = [], 0, 0
        while i < len(atoms):
            match = self._match(text, atoms, i, reading)
            if match is None:
                i += 1
                continue
            length, token = match
            parts += [text[end : atoms[i].start()], token]
            end = atoms[i + length - 1].end()
            i += length
        return "".join([*parts, text[end:]]) if parts else text

    def _match(
        self, text: str, atoms: list[re.Match[str]], first: int, reading: Reading
    ) -> tuple[int, str] | None:
        """Return number of words and replacement of the name that begins at a word."""
        for length in self._lengths:
            if first + length > len(atoms):
                continue
            start, end = atoms[first].start(), atoms[first + length - 1].end()
            token = self._token(text[start:end])
            if token is not None and _is_replaced(text, start, end, reading, token[1]):
                return length, token[0]
        return None

    def replace(self, value: Any, *, keys: bool = False, reading: Reading = Reading.TEXT) -> Any:
        """Return a JSON value without erased names. ``keys``: also in all keys of objects, not only
        in those that are consumers.
        """
        if isinstance(value, str):
            return self.text(value, reading)
        if isinstance(value, dict):
            return {
                self.text(key) if keys or _NAMED_KEY.match(key) else key: self.replace(
                    part, keys=keys or key in _FREE_KEYS, reading=_READINGS.get(key, reading)
                )
                for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.replace(part, keys=keys, reading=reading) for part in value]
        return value

    def _token(self, name: str) -> tuple[str, bool] | None:
        if name not in self._cache:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[name] = next(
                (
                    token
                    for pepper in self._peppers
                    if (token := self._tokens.get(name_digest(self._lab_id, name, pepper)))
                ),
                None,
            )
        return self._cache[name]


def _is_replaced(text: str, start: int, end: int, reading: Reading, in_texts: bool) -> bool:
    """Return whether a name at a position of a text is one of a person."""
    if reading is Reading.NAME or (reading is Reading.TEXT and in_texts):
        return True
    is_whole = end == len(text) or not (text[end].isalnum() or text[end] in "-_.")
    before = text[:start]
    if is_whole and _HOME_START.search(before):
        return True
    return reading is Reading.TEXT and text[end : end + 1] == "/" and bool(
        _CONSUMER_START.fullmatch(before)
    )  # fmt: skip


_FREE_KEYS = frozenset(("tags",))  # objects of the API whose keys a person chooses


def erased_names(lab_id: int) -> ErasedNames:
    """Return the erased names of a lab. One query."""
    return ErasedNames(lab_id, ErasedName.objects.filter(lab_id=lab_id))


def as_line(row: ErasedName) -> dict[str, Any]:
    """Return a row for the list of erasures."""
    return {name: getattr(row, name) for name in LINE_FIELDS}


def from_line(line: Mapping[str, Any]) -> ErasedName:
    """Return the unsaved row of a line of the list of erasures."""
    return ErasedName(**{name: line[name] for name in LINE_FIELDS})


LINE_FIELDS = ("lab_id", "number", "position", "words", "in_texts", "pepper", "digest", "erased_us")
