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
    ("", b"", 400, "file"), ("", b"\xff\xfe\xff", 400, "file"), ("", b"colour\nred", 400, "file"),
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
