"""Loading what is shipped: exact, idempotent, superseding and never editing; packs come and go."""

import csv
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.catalog import data_files as tables
from apps.catalog import packs as catalogue_packs
from apps.catalog.models import CURRENT, EmbodiedFigure, HardwareModel
from apps.catalog.packs import DATA, PACKS, all_packs
from apps.catalog.selectors import best_figure, category_default, model_of, search
from apps.catalog.services import load_catalogue
from apps.core.units import UG_PER_KG
from tests.builders import T0
from tests.shipped_data import empty_catalogue

HEAD = (
    "kind,category,name,aliases,vendor,method,unit,total_kg,low_kg,high_kg,manufacture_kg,"
    "transport_kg,end_of_life_kg,"
    "includes_end_of_life,lifetime_years,source,source_year,licence,confidence,note\n"
)


def _rows() -> list[tuple[str, dict[str, str]]]:
    listed = []
    for pack, folder in [("", DATA), *((name, PACKS / name) for name in all_packs())]:
        with (folder / "figures.csv").open(newline="", encoding="utf-8") as file:
            listed += [(pack, row) for row in csv.DictReader(file)]
    return listed


@pytest.mark.django_db
def test_every_row_is_in_the_database_to_the_microgram() -> None:
    stored = {
        (figure.pack, figure.model.kind, figure.model.name, figure.method, figure.unit): figure
        for figure in EmbodiedFigure.objects.select_related("model")
    }
    listed = _rows()
    assert len(stored) == len(listed)
    parts = ("total", "low", "high", "manufacture", "transport", "end_of_life")
    for pack, row in listed:
        figure = stored[pack, row["kind"], row["name"], row["method"], row["unit"]]
        for part in parts:
            text = row[f"{part}_kg"]
            ug = getattr(figure, f"{part}_ug")
            assert ug == (Decimal(text) * UG_PER_KG if text else None), (part, row)
        assert (figure.source, figure.licence, figure.note) == (
            row["source"],
            row["licence"],
            row["note"],
        )
        assert (
            figure.includes_end_of_life
            is {"yes": True, "no": False, "": None}[row["includes_end_of_life"]]
        )


@pytest.mark.django_db
def test_loading_again_writes_nothing() -> None:
    before = list(EmbodiedFigure.objects.order_by("pk").values_list("pk", "superseded_us"))
    with CaptureQueriesContext(connection) as captured:
        load_catalogue(now=T0 + 1)
    wrote = [
        query["sql"]
        for query in captured
        if query["sql"].split()[0] in {"INSERT", "UPDATE", "DELETE"}
    ]
    assert wrote == []
    assert list(EmbodiedFigure.objects.order_by("pk").values_list("pk", "superseded_us")) == before


@pytest.mark.django_db
def test_a_pack_that_is_left_out_is_superseded_and_comes_back(settings: Any) -> None:
    laptop, card = model_of("laptop", "Dell XPS 15 9520"), model_of("gpu", "NVIDIA L4")
    assert laptop is not None
    assert card is not None
    old = best_figure(laptop, None)
    assert old is not None
    settings.DATA_PACKS = ["boaviztapi-agpl"]
    load_catalogue(now=T0 + 1)
    old.refresh_from_db()
    assert old.superseded_us == T0 + 1, "it stays for those that were charged with it"
    assert model_of("laptop", "Dell XPS 15 9520") is None, (
        "a model that came with the pack is off the catalogue"
    )
    assert model_of("gpu", "NVIDIA L4") == card, "a model of the own tables stays, without a figure"
    assert best_figure(card, None) is None
    default = category_default("laptop")
    assert default is not None
    assert default.pack == "boaviztapi-agpl"
    assert not EmbodiedFigure.objects.filter(
        CURRENT, pack__in=["boavizta-odbl", "hubblo-cc-by-sa"]
    ).exists()
    settings.DATA_PACKS = None
    load_catalogue(now=T0 + 2)
    assert model_of("laptop", "Dell XPS 15 9520") == laptop
    again = best_figure(laptop, None)
    assert again is not None
    assert (again.total_ug, again.pk != old.pk) == (old.total_ug, True)


def test_without_packs_nothing_of_them_is_there(db: None, settings: Any) -> None:
    empty_catalogue()
    settings.DATA_PACKS = []
    load_catalogue(now=T0)
    assert set(EmbodiedFigure.objects.values_list("pack", flat=True)) == {""}
    assert set(HardwareModel.objects.values_list("pack", flat=True)) == {""}
    assert category_default("gpu") is not None


def _table(folder: Path, *lines: str) -> None:
    (folder / "figures.csv").write_text(
        HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8"
    )


@pytest.fixture
def small_tables(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Path:
    """A folder with a table of one switch, in the place of what is shipped."""
    settings.DATA_PACKS = []
    for table in ("gpu", "cpu", "models"):
        (tmp_path / f"{table}.csv").write_text(
            (DATA / f"{table}.csv").read_text(encoding="utf-8").split("\n")[0] + "\n"
        )
    _table(
        tmp_path,
        "network,switch,Switch A,Switch-A1;SwA,,lca,item,0.1,0.05,0.2,,,,,,Somebody,2024,MIT,read,",
    )
    monkeypatch.setattr(tables, "DATA", tmp_path)
    empty_catalogue()
    load_catalogue(now=T0)
    return tmp_path


def test_a_changed_figure_supersedes_the_old(small_tables: Path) -> None:
    [old] = EmbodiedFigure.objects.all()
    assert old.total_ug == 100_000_000, "0.1 kg exactly: a float would make 100000000.00000001"
    _table(
        small_tables,
        "network,switch,Switch A,SwB,,lca,item,0.3,0.05,0.4,,,,,,Somebody,2024,MIT,read,",
    )
    assert load_catalogue(now=T0 + 5) == 1
    old.refresh_from_db()
    assert (old.total_ug, old.superseded_us) == (100_000_000, T0 + 5)
    new = EmbodiedFigure.objects.get(CURRENT)
    assert (new.total_ug, new.uploaded_us, new.model) == (300_000_000, T0 + 5, old.model)
    assert model_of("network", "SwB") == old.model
    assert model_of("network", "SwA") is None


def test_a_model_that_is_no_longer_shipped_is_retired_and_revived(small_tables: Path) -> None:
    model = HardwareModel.objects.get()
    _table(small_tables)
    assert load_catalogue(now=T0 + 5) == 0
    model.refresh_from_db()
    assert model.retired_us == T0 + 5
    assert not search(None).exists()
    _table(
        small_tables, "network,switch,Switch A,,,lca,item,0.1,0.05,0.2,,,,,,Somebody,2024,MIT,read,"
    )
    load_catalogue(now=T0 + 6)
    model.refresh_from_db()
    assert model.retired_us is None


@pytest.mark.parametrize(
    ("value", "loads"), [(None, True), ([], True), (["hubblo-cc-by-sa"], True), (["hublo"], False)]
)
def test_a_pack_that_does_not_exist_is_told_at_start(
    settings: Any, value: list[str] | None, loads: bool
) -> None:
    settings.DATA_PACKS = value
    told = [error for error in run_checks() if error.id == "labcarbon.E008"]
    assert bool(told) is not loads
    if told:
        assert "hublo" in told[0].msg
        assert "hubblo-cc-by-sa" in (told[0].hint or "")


@pytest.mark.parametrize(
    ("text", "packs"),
    [("", None), ("all", None), ("none", []), ("a, b", ["a", "b"]), ("all,a", ["all", "a"])],
)
def test_the_setting_is_read(
    monkeypatch: pytest.MonkeyPatch, text: str, packs: list[str] | None
) -> None:
    from labcarbon.env import read_environment

    monkeypatch.setenv("LABCARBON_DATA_PACKS", text)
    assert read_environment().data_packs == packs


def test_the_whole_folder_is_read_by_default() -> None:
    assert settings.DATA_PACKS is None
    assert catalogue_packs.loaded_packs() == list(all_packs())
