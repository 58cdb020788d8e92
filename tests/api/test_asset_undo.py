"""/api/v1/assets/import/<uuid>/undo/ and redo/, /api/v1/assets/<id>/remove/ and restore/."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.assets.models import Asset, RegisterImport
from apps.core.jobs import run_until_idle
from tests.api.conftest import Labs
from tests.assets.gpus import own_csv

Refused = Callable[..., dict[str, Any]]
CSV = {"content_type": "text/csv"}


@pytest.fixture
def uuid(labs: Labs) -> str:
    body = labs.admin("POST", "assets/import/?confirm=yes", own_csv().encode(), **CSV).json()
    assert body["state"] == "done"
    return str(body["uuid"])


def test_undone_and_restored(labs: Labs, uuid: str) -> None:
    plan = labs.admin("GET", f"assets/import/{uuid}/undo/").json()
    assert (len(plan["possible"]), plan["refused"]) == (41, [])
    assert plan["possible"][0].keys() == {"asset", "name", "tag", "kind", "reason"}
    assert Asset.objects.count() == 41
    done = labs.admin("POST", f"assets/import/{uuid}/undo/", {})
    assert (done.status_code, len(done.json()["possible"])) == (200, 41)
    assert not Asset.objects.exists()
    assert labs.admin("GET", "assets/").json()["results"] == []
    assert len(labs.admin("GET", f"assets/import/{uuid}/redo/").json()["possible"]) == 41
    assert labs.admin("POST", f"assets/import/{uuid}/redo/", {}).status_code == 200
    assert Asset.objects.count() == 41


def test_refused_until_left_out(labs: Labs, uuid: str, refused: Refused) -> None:
    card = Asset.objects.exclude(parent=None).order_by("pk")[0]
    event = {"kind": "retire", "at": "2026-01-01T00:00Z"}
    assert labs.admin("POST", f"assets/{card.pk}/events/", event).status_code == 201
    error = refused(labs.admin("POST", f"assets/import/{uuid}/undo/", {}), 409, "undo_refused")
    assert "later events" in error["message"]
    assert Asset.objects.count() == 41
    plan = labs.admin("GET", f"assets/import/{uuid}/undo/").json()
    assert {row["asset"] for row in plan["refused"]} == {card.pk, card.parent_id}
    leave_out = [row["asset"] for row in plan["refused"]]
    done = labs.admin("POST", f"assets/import/{uuid}/undo/", {"leave_out": leave_out}).json()
    assert (len(done["possible"]), Asset.objects.count()) == (39, 2)


def test_one_asset(labs: Labs, uuid: str, refused: Refused) -> None:
    card = Asset.objects.exclude(parent=None).order_by("pk")[0]
    refused(labs.admin("POST", f"assets/{card.parent_id}/remove/"), 409, "undo_refused")
    assert labs.admin("POST", f"assets/{card.pk}/remove/").status_code == 204
    refused(labs.admin("GET", f"assets/{card.pk}/"), 404, "not_found")
    refused(labs.admin("POST", f"assets/{card.pk}/remove/"), 404, "not_found")
    assert labs.admin("POST", f"assets/{card.pk}/restore/").status_code == 204
    refused(labs.admin("POST", f"assets/{card.pk}/restore/"), 409, "conflict")
    assert labs.admin("GET", f"assets/{card.pk}/").status_code == 200


@pytest.mark.parametrize("path", ["import/{uuid}/undo/", "import/{uuid}/redo/"])
@pytest.mark.parametrize("leave_out", ["all", [0], ["x"], [1.5]])
def test_invalid(labs: Labs, uuid: str, refused: Refused, path: str, leave_out: Any) -> None:
    answer = labs.admin("POST", f"assets/{path.format(uuid=uuid)}", {"leave_out": leave_out})
    refused(answer, 400)
    assert Asset.objects.count() == 41


@pytest.mark.parametrize(
    "path", ["import/{uuid}/undo/", "import/{uuid}/redo/", "{pk}/remove/", "{pk}/restore/"]
)
def test_other_lab_and_method(labs: Labs, uuid: str, refused: Refused, path: str) -> None:
    RegisterImport.objects.update(lab=labs.theirs.lab)
    Asset.objects.update(lab=labs.theirs.lab)
    address = f"assets/{path.format(uuid=uuid, pk=Asset.objects.order_by('-pk')[0].pk)}"
    refused(labs.admin("POST", address, {}), 404, "not_found")
    refused(labs.admin("DELETE", address), 405)


def test_a_long_import_is_undone_by_a_job(
    labs: Labs, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.assets.services.import_tasks.SYNCHRONOUS_ASSETS", 10)
    for _ in range(2):
        started = labs.admin("POST", f"assets/import/{uuid}/undo/", {})
        assert (started.status_code, started.json()["state"]) == (202, "undoing")
    assert labs.admin("POST", f"assets/import/{uuid}/redo/", {}).status_code == 409
    assert labs.admin("GET", f"assets/import/{uuid}/").status_code == 202
    run_until_idle(worker="test")
    ended = labs.admin("GET", f"assets/import/{uuid}/")
    assert (ended.status_code, ended.json()["state"], ended.json()["error"]) == (200, "done", "")
    assert not Asset.objects.exists()
