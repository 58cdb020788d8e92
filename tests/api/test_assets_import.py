"""/api/v1/assets/import/: a file is read, told line by line, and written when confirmed."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.assets.models import Asset, RegisterImport
from apps.core.jobs import run_until_idle
from tests.api.conftest import Labs
from tests.assets.gpus import NETBOX, own_csv

Refused = Callable[..., dict[str, Any]]
CSV = {"content_type": "text/csv"}


def test_read_then_confirmed(labs: Labs) -> None:
    told = labs.admin("POST", "assets/import/", own_csv().encode(), **CSV)
    assert told.status_code == 200, told.content
    body = told.json()
    assert (body["state"], body["counts"], body["origin"]) == ("read", {"new": 41}, "LabCarbon")
    assert body["rows"][1]["model"] == "NVIDIA A100-SXM4-80GB"
    assert not Asset.objects.exists()
    done = labs.admin("POST", f"assets/import/{body['uuid']}/")
    assert done.json()["state"] == "done"
    assert Asset.objects.count() == 41
    assert labs.admin("GET", f"assets/import/{body['uuid']}/").json()["state"] == "done"


def test_at_once(labs: Labs) -> None:
    told = labs.admin(
        "POST", "assets/import/?confirm=yes&bought_on=2024-03-01", NETBOX.encode(), **CSV
    ).json()
    assert (told["state"], told["origin"], told["ignored"]) == (
        "done",
        "NetBox",
        ["Tenant", "IP Address"],
    )
    assert Asset.objects.count() == 3


def test_wrong_lines_hinder_all(labs: Labs, refused: Refused) -> None:
    text = b"name,kind,bought_on\ngood,gpu,2024-03-01\nbad,gpu,soon\n"
    told = labs.admin("POST", "assets/import/", text, **CSV).json()
    assert [(row["line"], row["field"]) for row in told["wrong"]] == [(3, "bought_on")]
    error = refused(labs.admin("POST", "assets/import/?confirm=yes", text, **CSV), 400, "bad_rows")
    assert "Line 3" in error["message"]
    assert not Asset.objects.exists()


def test_a_long_file_is_answered_with_202(labs: Labs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.assets.services.csv_import.SYNCHRONOUS_LINES", 10)
    told = labs.admin("POST", "assets/import/?confirm=yes", own_csv().encode(), **CSV)
    assert (told.status_code, told.json()["state"]) == (202, "reading")
    uuid = told.json()["uuid"]
    run_until_idle(worker="test")
    assert labs.admin("GET", f"assets/import/{uuid}/").json()["state"] == "read"
    assert labs.admin("POST", f"assets/import/{uuid}/").status_code == 202
    run_until_idle(worker="test")
    assert labs.admin("GET", f"assets/import/{uuid}/").json()["state"] == "done"
    assert Asset.objects.count() == 41


@pytest.mark.parametrize(
    ("query", "content", "status", "field"),
    [
    ("", b"", 400, "file"), ("", b"\xff\xfe\xff", 400, "file"), ("", b",\nred,", 400, "file"),
    ("?date_order=ymd", b"name\na", 400, "date_order"), ("?decimal=x", b"name\na", 400, "decimal"),
    ("?encoding=ebcdic", b"name\na", 400, "encoding"), ("", b"%PDF-1.7", 400, "file"),
    ("?currency=money", b"name\na", 400, "currency"),
    ("?bought_on=soon", b"name\na", 400, "bought_on"),
    ("?confirm=perhaps", b"name\na", 400, "confirm"), ("?colour=red", b"name\na", 400, "colour"),
    ("", b"x" * ((8 << 20) + 1), 413, "file"),
],
)  # fmt: skip
def test_bad_input(
    labs: Labs, refused: Refused, query: str, content: bytes, status: int, field: str
) -> None:
    assert (
        refused(labs.admin("POST", f"assets/import/{query}", content, **CSV), status)["field"]
        == field
    )
    assert not RegisterImport.objects.exists()


OWN_LIST = "Gerät;Modell;Kaufdatum;Anzahl\nKarte;RTX 3090;03/04/2024;2\n".encode("cp1252")


def test_columns_are_stated_before_the_file_is_read(labs: Labs, refused: Refused) -> None:
    told = labs.admin("POST", "assets/import/?confirm=yes", OWN_LIST, **CSV).json()
    assert (told["state"], told["rows"], told["encoding"]) == ("mapping", [], "cp1252")
    questions = told["questions"]
    assert questions["needs_columns"]
    assert questions["date_example"] == "03/04/2024"
    columns = {column["key"]: column["field"] for column in questions["columns"]}
    assert columns == {
        "gerat": "name", "modell": "model", "kaufdatum": "bought_on", "anzahl": "quantity",
    }  # fmt: skip
    where = f"assets/import/{told['uuid']}/"
    refused(labs.admin("POST", where), 409)
    error = refused(labs.admin("POST", f"{where}mapping/", {"columns": columns}), 400)
    assert error["field"] == "date_order"
    for body, field in (
        ({"columns": {"nosuch": "name"}}, "columns"),
        ({"columns": {"gerat": "nosuch"}}, "columns.gerat"),
        ({"columns": {"gerat": "name", "modell": "name"}}, "columns"),
        ({"columns": {"kaufdatum": "bought_on"}}, "columns"),
        ({"columns": columns, "date_order": "ymd"}, "date_order"),
        ({"columns": columns, "date_order": "dmy", "decimal": ";"}, "decimal"),
        ({"columns": "name"}, "columns"),
    ):
        assert refused(labs.admin("POST", f"{where}mapping/", body), 400)["field"] == field
    answers = {"columns": columns, "date_order": "dmy"}
    read = labs.admin("POST", f"{where}mapping/", answers).json()
    assert (read["state"], read["counts"]) == ("read", {"new": 2})
    (row,) = read["rows"]
    assert (row["bought_on"], row["items"], row["model"]) == (
        "2024-04-03",
        2,
        "NVIDIA GeForce RTX 3090",
    )
    again = labs.admin("POST", "assets/import/?confirm=yes", OWN_LIST, **CSV).json()
    assert (again["state"], again["questions"]) == ("done", None)
    refused(labs.admin("POST", f"assets/import/{again['uuid']}/mapping/", answers), 409)


def test_who_may_assign_columns(labs: Labs, refused: Refused) -> None:
    uuid = labs.admin("POST", "assets/import/", OWN_LIST, **CSV).json()["uuid"]
    where = f"assets/import/{uuid}/mapping/"
    answers = {"columns": {"gerat": "name", "kaufdatum": "bought_on"}, "date_order": "dmy"}
    for caller in (labs.viewer, labs.member, labs.node):
        refused(caller("POST", where, answers), 403)
    refused(labs.nobody("POST", where, answers), 401)
    refused(labs.outsider("POST", where, answers), 404)
    refused(labs.admin("GET", where), 405)
    assert RegisterImport.objects.get(uuid=uuid).state == "mapping"


def test_who_may_and_methods(labs: Labs, refused: Refused) -> None:
    uuid = labs.admin("POST", "assets/import/", own_csv().encode(), **CSV).json()["uuid"]
    for caller in (labs.viewer, labs.member, labs.node):
        refused(caller("POST", "assets/import/", b"name\na", **CSV), 403)
        refused(caller("POST", f"assets/import/{uuid}/"), 403)
        refused(caller("GET", f"assets/import/{uuid}/"), 403)
    refused(labs.nobody("POST", "assets/import/", b"name\na", **CSV), 401)
    for method in ("GET", "POST"):
        refused(labs.outsider(method, f"assets/import/{uuid}/"), 404)
    refused(labs.admin("GET", "assets/import/"), 405)
    refused(labs.admin("DELETE", f"assets/import/{uuid}/"), 405)
    assert not Asset.objects.exists()
