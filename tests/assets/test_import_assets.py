"""`manage.py import_assets`."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.assets.models import Asset, RegisterImport
from tests.assets.gpus import NETBOX, own_csv
from tests.builders import SmallLab, small_lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def run(path: Path, *options: str) -> str:
    out = StringIO()
    call_command("import_assets", str(path), *options, stdout=out)
    return out.getvalue()


def test_dry_run_then_import_then_again(lab: SmallLab, tmp_path: Path) -> None:
    path = tmp_path / "gpus.csv"
    path.write_text(own_csv(), encoding="utf-8")
    assert "lines: 41 new" in run(path, "--dry-run")
    assert not Asset.objects.exists()
    assert not RegisterImport.objects.exists()
    assert "41 registered" in run(path)
    told = run(path)
    assert "41 known" in told
    assert "0 registered" in told


def test_a_long_file_needs_no_worker(
    lab: SmallLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.assets.services.csv_import.SYNCHRONOUS_LINES", 10)
    path = tmp_path / "gpus.csv"
    path.write_text(own_csv(), encoding="utf-8")
    assert "41 registered" in run(path)


def test_options_for_what_the_file_does_not_tell(lab: SmallLab, tmp_path: Path) -> None:
    path = tmp_path / "devices.csv"
    path.write_text(NETBOX, encoding="utf-8")
    with pytest.raises(CommandError, match="line 2: The purchase date is missing"):
        run(path)
    told = run(path, "--bought-on", "2024-03-01")
    assert "Read as NetBox" in told
    assert "not read: Tenant, IP Address" in told
    assert "3 registered" in told


def test_what_is_wrong_is_told(lab: SmallLab, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        run(tmp_path / "none.csv")
    path = tmp_path / "x.csv"
    path.write_text("colour\nred\n", encoding="utf-8")
    with pytest.raises(CommandError, match="--column HEADING=FIELD"):
        run(path)
    small_lab(name="Second")
    with pytest.raises(CommandError, match="Name the lab"):
        run(path)


def test_columns_of_an_own_format(lab: SmallLab, tmp_path: Path) -> None:
    path = tmp_path / "liste.csv"
    path.write_text("Was;Gekauft\nRTX 3090;03/04/2024\n", encoding="utf-8")
    with pytest.raises(CommandError, match="Was: ignored"):
        run(path)
    with pytest.raises(CommandError, match="add --date-order"):
        run(path, "--column", "Was=model", "--column", "Gekauft=bought_on")
    with pytest.raises(CommandError, match="not a field"):
        run(path, "--column", "Was=thing")
    told = run(
        path, "--column", "Was=model", "--column", "Gekauft=bought_on", "--date-order", "mdy"
    )
    assert "1 registered" in told
