"""Read the shipped tables: models and figures of the project's own tables and of the data packs.

The project's own tables contain only freely redistributable data. Share-alike figures are in packs,
one folder each with licence and sources (docs/catalog.md). LABCARBON_DATA_PACKS can leave out a
pack.
"""

import csv
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from apps.catalog.matching import kg_to_ug, match_key
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.packs import DATA, PACKS, loaded_packs

_YES_NO = {"yes": True, "no": False, "": None}

Row = dict[str, str]
Key = tuple[str, str]  # kind and name, which identify a shipped model


def rows_of(path: Path) -> Iterator[Row]:
    """Yield the rows of a table."""
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _thousand(text: str) -> int | None:
    return int(Decimal(text) * 1000) if text else None


def _int(text: str) -> int | None:
    return int(Decimal(text)) if text else None


def _ug(kg: str) -> int | None:
    return kg_to_ug(Decimal(kg)) if kg else None


def _specified(kind: str, row: Row) -> HardwareModel:
    memory = row.get("memory_gb", "")
    return HardwareModel(
        kind=kind,
        category=row.get("category", ""),
        name=row["name"],
        match_key=match_key(row["name"]),
        vendor=row["vendor"],
        architecture=row["architecture"],
        release_year=_int(row["release_year"]),
        tdp_mw=_thousand(row["tdp_w"]),
        memory_mib=int(Decimal(memory) * 1024) if memory else None,
        cores=_int(row.get("cores", "")),
        threads=_int(row.get("threads", "")),
        source=row["source"],
        licence=row["licence"],
    )


def _named(pack: str, row: Row) -> HardwareModel:
    """Return the model of a figure without a specification."""
    return HardwareModel(
        kind=row["kind"],
        category=row["category"],
        name=row["name"],
        match_key=match_key(row["name"]),
        vendor=row["vendor"],
        source=row["source"][:300],
        licence=row["licence"],
        pack=pack,
    )


def _figure(pack: str, row: Row) -> EmbodiedFigure:
    return EmbodiedFigure(
        pack=pack,
        method=row["method"],
        unit=row["unit"],
        manufacture_ug=_ug(row["manufacture_kg"]),
        transport_ug=_ug(row["transport_kg"]),
        end_of_life_ug=_ug(row["end_of_life_kg"]),
        total_ug=kg_to_ug(Decimal(row["total_kg"])),
        low_ug=kg_to_ug(Decimal(row["low_kg"])),
        high_ug=kg_to_ug(Decimal(row["high_kg"])),
        includes_end_of_life=_YES_NO[row["includes_end_of_life"]],
        lifetime_years_typical=Decimal(row["lifetime_years"]) if row["lifetime_years"] else None,
        source=row["source"],
        source_year=_int(row["source_year"]),
        licence=row["licence"],
        confidence=row["confidence"],
        note=row["note"],
    )


class Shipped:
    """All shipped models by kind and name, their aliases as match keys, and their figures."""

    def __init__(self) -> None:
        self.models: dict[Key, HardwareModel] = {}
        self.aliases: dict[Key, set[str]] = {}
        self.figures: list[tuple[Key, EmbodiedFigure]] = []
        for kind in ("gpu", "cpu"):
            for row in rows_of(DATA / f"{kind}.csv"):
                self._know(_specified(kind, row), row.get("aliases", ""))
        for row in rows_of(DATA / "models.csv"):
            self._know(_specified(row["kind"], row), row["aliases"])
        self._read("", DATA)
        for pack in loaded_packs():
            self._read(pack, PACKS / pack)

    def _know(self, model: HardwareModel, aliases: str) -> Key:
        key = (model.kind, model.name)
        known = self.models.setdefault(key, model)
        keys = {match_key(alias) for alias in aliases.split(";")}
        self.aliases.setdefault(key, set()).update(keys - {"", known.match_key})
        return key

    def _read(self, pack: str, folder: Path) -> None:
        for row in rows_of(folder / "figures.csv"):
            self.figures.append((self._know(_named(pack, row), row["aliases"]), _figure(pack, row)))
