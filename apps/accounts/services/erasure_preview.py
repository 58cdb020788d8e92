"""The texts of a lab that contain a name of a person, for a decision before the erasure."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from django.conf import settings

from apps.accounts.common_words import is_ordinary
from apps.accounts.models import Lab
from apps.accounts.services.lab_texts import columns_of
from apps.core.erasure.names import ErasedNames, Reading, name_digest, token_of, words_of
from apps.core.models import ErasedName

MAX_EXCERPTS = 20
_AROUND = 40


@dataclass
class NamePreview:
    """A name and the texts that contain it: ``texts`` in prose, ``kept`` in keys and paths, which
    never change. ``is_ordinary``: the name can also be a word. ``is_selected``: it is replaced in
    texts.
    """

    name: str
    is_ordinary: bool
    is_selected: bool
    text_count: int = 0
    kept_count: int = 0
    texts: list[tuple[str, str]] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)


def preview(
    lab: Lab, names: Iterable[str], selected: Collection[str] | None = None
) -> list[NamePreview]:
    """Return the texts of a lab that contain each name beyond its place as a name. ``selected``:
    names that are replaced in texts; None: those that are no ordinary words.
    """
    chosen = [name for name in names if words_of(name)]
    previews = [
        NamePreview(
            name,
            is_ordinary(name),
            is_selected=not is_ordinary(name) if selected is None else name in selected,
        )
        for name in chosen
    ]
    everywhere = _names(lab, chosen, in_texts=True)
    by_position = _names(lab, chosen, in_texts=False)
    tokens = [token_of(0, i) for i in range(1, len(previews) + 1)]
    for column in columns_of(lab):
        if column.reading is Reading.NAME:
            continue
        values = column.rows.values_list(column.field.name, flat=True)
        for value in values if column.is_json else values.distinct():
            text = json.dumps(value, ensure_ascii=False) if column.is_json else value
            if not text or everywhere.text(text) == text:
                continue
            rest = column.without_names(value, by_position)
            rest = json.dumps(rest, ensure_ascii=False) if column.is_json else rest
            without = everywhere.text(rest)
            for part, token in zip(previews, tokens, strict=True):
                if _count(without, token) > _count(rest, token):
                    _add(part, column.label, text, is_kept=column.reading is not Reading.TEXT)
    return previews


def _names(lab: Lab, names: list[str], *, in_texts: bool) -> ErasedNames:
    pepper = max(settings.TOKEN_PEPPERS)
    return ErasedNames(
        lab.pk,
        [
            ErasedName(
                lab_id=lab.pk, number=0, position=i, words=words_of(name), in_texts=in_texts,
                pepper=pepper, digest=name_digest(lab.pk, name, pepper),
            )
            for i, name in reversed(list(enumerate(names, 1)))
        ],
    )  # fmt: skip


def _count(text: str, token: str) -> int:
    return text.count(token) - text.count(f"{token}-")


def _add(part: NamePreview, label: str, text: str, *, is_kept: bool) -> None:
    at = max(text.casefold().find(part.name.casefold()) - _AROUND, 0)
    end = at + len(part.name) + 2 * _AROUND
    excerpt = f"{'…' if at else ''}{text[at:end]}{'…' if end < len(text) else ''}"
    if is_kept:
        part.kept_count += 1
    else:
        part.text_count += 1
    listed = part.kept if is_kept else part.texts
    if len(listed) < MAX_EXCERPTS:
        listed.append((label, excerpt))
