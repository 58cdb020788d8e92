"""The data packs: figures under share-alike licences, a folder each with licence, sources and the notice to show.

What carries no licence of its own beside the program's lies in the tables of ``data/`` instead.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

DATA = Path(__file__).parent / "data"
PACKS = DATA / "packs"


@dataclass(frozen=True)
class Pack:
    """What a page says where it shows a figure of a pack."""

    name: str
    title: str
    licence: str
    spdx: str
    licence_url: str
    source_url: str
    notice: str


@cache
def pack_of(name: str) -> Pack:
    """Return a pack of this copy of the program. Raises FileNotFoundError if there is none of this name."""
    return Pack(name=name, **tomllib.loads((PACKS / name / "pack.toml").read_text(encoding="utf-8")))


@cache
def all_packs() -> tuple[str, ...]:
    """Return the names of the packs in this copy of the program."""
    return tuple(sorted(path.parent.name for path in PACKS.glob("*/pack.toml")))


def loaded_packs() -> list[str]:
    """Return the names of the packs that this installation loads. A name without a pack is refused by a system check."""
    return [name for name in all_packs() if settings.DATA_PACKS is None or name in settings.DATA_PACKS]


def notices(names: set[str]) -> list[Pack]:
    """Return the packs of ``names`` ('' and packs that are gone have no notice), in the order of their names."""
    return [pack_of(name) for name in all_packs() if name in names]
