"""Every shipped row has a source and a licence, share-alike figures lie in packs, and each pack
says what it asks.
"""

import csv
import re
from decimal import Decimal
from pathlib import Path

import pytest

from apps.catalog.choices import Confidence, FigureMethod, FigureUnit, HardwareKind
from apps.catalog.packs import DATA, PACKS, all_packs, pack_of
from apps.catalog.selectors import category_default

TABLES = sorted(DATA.rglob("*.csv"))
FIGURES = [DATA / "figures.csv", *(PACKS / name / "figures.csv" for name in all_packs())]
# What the project's own tables may hold: permissive terms, and single facts that are quoted.
PERMISSIVE = {
    "MIT", "Apache-2.0", "CC BY 4.0", "Apache-2.0 (LabCarbon)", "quoted fact (arXiv)",
    "quoted fact (NVIDIA publication)", "quoted fact (publication)", "SPEC fair use; figures",
}  # fmt: skip
SHARE_ALIKE = re.compile(r"odbl|by-sa|by sa|share|gpl|mpl|check|not cleared", re.IGNORECASE)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_test_looks_at_all_tables() -> None:
    names = {str(path.relative_to(DATA)) for path in TABLES}
    packs = {f"packs/{name}/figures.csv" for name in all_packs()}
    tables = ("cpu", "gpu", "models", "host_power", "figures", "defaults", "contents")
    tables += ("model_costs", "mig_profiles", "mlperf_power")
    assert names == {f"{table}.csv" for table in tables} | packs
    assert all_packs() == ("boavizta-odbl", "boaviztapi-agpl", "hubblo-cc-by-sa")
    assert sum(len(rows(path)) for path in TABLES) > 3500


@pytest.mark.parametrize("path", [path for path in TABLES if path.name != "defaults.csv"], ids=str)
def test_every_row_has_a_source_and_a_licence(path: Path) -> None:
    for row in rows(path):
        assert row["source"].strip(), row
        assert row["licence"].strip(), row


@pytest.mark.parametrize(
    "path",
    [path for path in TABLES if path.parent == DATA and path.name != "defaults.csv"],
    ids=str,
)
def test_the_own_tables_hold_nothing_share_alike(path: Path) -> None:
    for row in rows(path):
        assert row["licence"] in PERMISSIVE, row
        assert not SHARE_ALIKE.search(row["licence"] + row["source"]), row
        assert "boavizta" not in row["source"].lower(), row
        assert "hubblo" not in row["source"].lower(), row


@pytest.mark.parametrize("name", all_packs())
def test_a_pack_is_under_its_licence_as_a_whole_and_says_so(name: str) -> None:
    pack = pack_of(name)
    assert {row["licence"] for row in rows(PACKS / name / "figures.csv")} == {pack.licence}
    assert SHARE_ALIKE.search(pack.licence)
    licence = (PACKS / name / "LICENSE").read_text(encoding="utf-8")
    assert f"SPDX-License-Identifier: {pack.spdx}\n" in licence
    assert re.search(
        r"https?://(creativecommons\.org|opendatacommons\.org|www\.gnu\.org)/", licence
    )
    sources = (PACKS / name / "SOURCES.md").read_text(encoding="utf-8")
    assert pack.source_url in sources
    assert "changed" in sources, "what was changed must be told"
    assert pack.notice.endswith(".")
    assert pack.licence_url.startswith("https://")


@pytest.mark.parametrize("path", FIGURES, ids=str)
def test_a_figure_is_whole(path: Path) -> None:
    """Low ≤ total ≤ high, parts inside the total, words of the closed lists; an empty cell,
    never a zero for unknown.
    """
    for row in rows(path):
        total, low, high = (Decimal(row[name]) for name in ("total_kg", "low_kg", "high_kg"))
        parts = [
            Decimal(row[name])
            for name in ("manufacture_kg", "transport_kg", "end_of_life_kg")
            if row[name]
        ]
        assert total > 0, row
        assert low <= total <= high, row
        assert sum(parts) <= total * Decimal("1.01"), row
        assert all(part <= total for part in parts), row
        if any(part == 0 for part in parts):
            assert sum(parts) >= total * Decimal("0.99"), ("a zero that is really unknown", row)
        assert row["includes_end_of_life"] in {"yes", "no", ""}, row
        assert not row["end_of_life_kg"] or row["includes_end_of_life"] == "yes", row
        assert row["kind"] in HardwareKind.values
        assert row["method"] in FigureMethod.values
        assert row["unit"] in FigureUnit.values
        assert row["confidence"] in set(Confidence.values) - {"stated"}
        assert row["name"] == " ".join(row["name"].split())


def test_no_figure_stands_twice_in_a_table() -> None:
    for path in FIGURES:
        keys = [(row["kind"], row["name"], row["method"], row["unit"]) for row in rows(path)]
        assert len(keys) == len(set(keys)), path


def test_an_estimate_says_so() -> None:
    for path in FIGURES:
        for row in rows(path):
            if row["source"].startswith("LabCarbon") or row["method"] == "parametric":
                assert row["confidence"] != "reported", row
            if row["source"].startswith("LabCarbon"):
                assert row["confidence"] == "estimate", row


def test_docs_name_each_pack() -> None:
    text = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text(encoding="utf-8")
    for name in all_packs():
        assert f"| `{name}` | {pack_of(name).licence} |" in text
    for method in FigureMethod.values:
        assert f"`{method}`" in text


@pytest.mark.django_db
def test_every_default_is_a_category_s_figure_that_is_shipped() -> None:
    for row in rows(DATA / "defaults.csv"):
        figure = category_default(row["kind"], row["category"])
        assert figure is not None, row
        assert figure.method == FigureMethod.CATEGORY, row
    named = {(row["kind"], row["name"]) for row in rows(DATA / "defaults.csv")}
    figures = {(row["kind"], row["name"]) for path in FIGURES for row in rows(path)}
    assert named <= figures, "a default that no table has"
