"""Data packs: figures under share-alike licences, one folder each.

A folder contains licence, sources and the notice to show. Data without a licence of its own is in
the tables of ``data/``.
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
    """A data pack with the notice for pages that show its figures."""

    name: str
    title: str
    licence: str
    spdx: str
    licence_url: str
    source_url: str
    notice: str


@cache
def pack_of(name: str) -> Pack:
    """Return an installed pack. Raises FileNotFoundError for an unknown name."""
    return Pack(
        name=name, **tomllib.loads((PACKS / name / "pack.toml").read_text(encoding="utf-8"))
    )


@cache
def all_packs() -> tuple[str, ...]:
    """Return the names of the installed packs."""
    return tuple(sorted(path.parent.name for path in PACKS.glob("*/pack.toml")))


def loaded_packs() -> list[str]:
    """Return the names of the packs that this installation loads.

    A system check refuses a name without a pack.
    """
    return [
        name for name in all_packs() if settings.DATA_PACKS is None or name in settings.DATA_PACKS
    ]


def notices(names: set[str]) -> list[Pack]:
    """Return the packs of ``names``, sorted by name. '' and removed packs have no notice."""
    return [pack_of(name) for name in all_packs() if name in names]
