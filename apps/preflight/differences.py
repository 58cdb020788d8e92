"""In what two works differ, typed where both values may be told. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.preflight.similarity import Likeness, Work, relate


@dataclass(frozen=True)
class Difference:
    """One thing in which two works differ. A value of None: not there (``only``), or not told."""

    part: str
    name: str
    here: Any = None
    there: Any = None
    only: str = ""  # 'here' or 'there': the other side has none


def differences(here: Work, there: Work) -> list[Difference]:
    """Return in what two works differ, typed where both values may be told; parts nobody can compare are left out."""
    relation = relate(here, there)
    found = []
    if relation.code == Likeness.DIFFERENT:
        found.append(Difference("code", "format" if relation.normal == Likeness.SAME else "logic"))
    found += [Difference(part, part) for part in ("data", "start") if getattr(relation, part) == Likeness.DIFFERENT]
    hashes = (here.params or {}, there.params or {}) if relation.changed is not None else ({}, {})
    found += _named("params", *hashes, here.told, there.told)
    if here.seeds is not None and there.seeds is not None:
        found += _named("seeds", here.seeds, there.seeds, here.told, there.told)
    for part in ("environment", "hardware"):
        mine, theirs = getattr(here, part), getattr(there, part)
        if mine and theirs:
            found += _named(part, mine, theirs, mine, theirs)
    return found


def _named(
    part: str, here: Mapping[str, Any], there: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> list[Difference]:
    names = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
    return [
        Difference(
            part,
            name,
            mine.get(name) if name in here else None,
            theirs.get(name) if name in there else None,
            "" if name in here and name in there else "here" if name in here else "there",
        )
        for name in names
    ]
