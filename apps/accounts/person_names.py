"""References to personal names in the audit log: ``⟦name 7⟧`` is row 7 of ``PersonName``.

An entry contains no name, so that erasing one changes no digest. Pure but for
:class:`NameReferences` and :func:`names_of`, which read and add rows of the model they are given.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from apps.accounts.common_words import is_common

SERVER = "the server"
UNKNOWN = "unknown person"
# What the details of an entry contain only as the name of a person.
NAME_KEYS = frozenset(
    ("admin", "invited_by", "owner", "person", "email", "os_user", "user", "contact")
)
# What a person typed: it can contain names that nobody knows yet.
TEXT_KEYS = frozenset(("note", "reason", "objection"))
NAME_SUBJECTS = frozenset(("member.role", "member.removed", "signin.made", "signin.failed"))
_REFERENCE = re.compile(r"⟦name ([0-9]{1,18})⟧")
_CUT_REFERENCE = re.compile(r"⟦[^⟧]*\Z")
_NO_NAMES = frozenset(("", SERVER, UNKNOWN))


def names_in_entry(
    *, actor: str, action: str, subject: str, details: Mapping[str, Any]
) -> set[str]:
    """Return the texts of an entry that are names by their position."""
    names = {actor}
    if action in NAME_SUBJECTS:
        names.add(subject)
    for key in NAME_KEYS & details.keys():
        names |= set(_strings(details[key]))
    return {name for name in names - _NO_NAMES if not _REFERENCE.fullmatch(name)}


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def word_pattern(names: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern of names as whole words, the longest first. Common words are left out."""
    words = sorted({name for name in names if not is_common(name)}, key=lambda name: -len(name))
    if not words:
        return None
    parts = "|".join(map(re.escape, words))
    return re.compile(rf"(?<![^\W_])(?:{parts})(?![^\W_])", re.IGNORECASE)


class NameReferences:
    """Replaces names in the texts of a lab's entries by references, and adds rows for new names.

    ``model``: PersonName, or its state in a migration. ``known``: names that are replaced wherever
    they are a whole word, such as those of the members.
    """

    def __init__(self, model: Any, lab_id: int, known: Iterable[str]) -> None:
        self._model, self._lab_id = model, lab_id
        rows = model.objects.filter(lab_id=lab_id, is_name=True).order_by("-pk")
        self._numbers: dict[str, int] = dict(rows.values_list("text", "pk"))
        self._pattern = word_pattern({*known, *self._numbers})

    def refer(self, value: Any, names: Collection[str]) -> Any:
        """Return a JSON value without names. ``names``: texts that are names as a whole."""
        if isinstance(value, str):
            return self._text(value, names)
        if isinstance(value, dict):
            return {
                key: self._whole(part) if key in TEXT_KEYS else self.refer(part, names)
                for key, part in value.items()
            }
        if isinstance(value, list):
            return [self.refer(part, names) for part in value]
        return value

    def _whole(self, value: Any) -> Any:
        """Return a JSON value with a reference for each of its texts."""
        if isinstance(value, str):
            is_stored = not value or _REFERENCE.fullmatch(value)
            return value if is_stored else self._reference(value, is_name=False)
        if isinstance(value, dict):
            return {key: self._whole(part) for key, part in value.items()}
        return value

    def _text(self, text: str, names: Collection[str]) -> str:
        if text in names and text not in _NO_NAMES:
            return self._reference(text)
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._reference(match[0]), text)

    def _reference(self, text: str, *, is_name: bool = True) -> str:
        number = self._numbers.get(text) if is_name else None
        if number is None:
            row = self._model.objects.create(lab_id=self._lab_id, text=text, is_name=is_name)
            number = row.pk
        if is_name:
            self._numbers[text] = number
        return f"⟦name {number}⟧"


def without_references(value: Any) -> Any:
    """Return a JSON value in which what looks like a reference, but was typed, is plain text."""
    if isinstance(value, str):
        return value.replace("⟦", "[").replace("⟧", "]")
    if isinstance(value, dict):
        return {key: without_references(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_references(part) for part in value]
    return value


def cut(text: str, length: int) -> str:
    """Return the first characters of a text, without a part of a reference at its end."""
    return text if len(text) <= length else _CUT_REFERENCE.sub("", text[:length])


def numbers_in(value: Any) -> set[int]:
    """Return the numbers of the references in a JSON value."""
    return {int(number) for text in _strings(value) for number in _REFERENCE.findall(text)}


def named(value: Any, names: Mapping[int, str]) -> Any:
    """Return a JSON value of an entry with its references replaced by names."""
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: names.get(int(match[1]), UNKNOWN), value)
    if isinstance(value, dict):
        return {key: named(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [named(part, names) for part in value]
    return value
