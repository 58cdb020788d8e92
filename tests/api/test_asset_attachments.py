"""/api/v1/assets/<id>/attachments/: add, list, download, delete; for PIs and admins only."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from apps.assets.models import Asset, Attachment
from tests.api.conftest import Labs
from tests.assets.support import bought

Refused = Callable[..., dict[str, Any]]
PDF = b"%PDF-1.7 invoice"


@pytest.fixture
def asset(labs: Labs, tmp_path: Path) -> Iterator[Asset]:
    with override_settings(ATTACHMENTS_DIR=tmp_path):
        yield bought(labs.ours)


def test_added_listed_downloaded_deleted(labs: Labs, asset: Asset) -> None:
    path = f"assets/{asset.pk}/attachments/"
    added = labs.admin("POST", f"{path}?file_name=in.pdf", PDF, content_type="text/html")
    assert added.status_code == 201, added.content
    row = added.json()
    assert (row["name"], row["type"], row["bytes"]) == ("in.pdf", "application/pdf", len(PDF))
    assert labs.admin("GET", path).json() == [row]
    got = labs.admin("GET", f"{path}{row['uuid']}/")
    assert (got.content, got["Content-Type"]) == (PDF, "application/pdf")
    assert got["Content-Disposition"].startswith("attachment")
    assert got["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in got["Content-Security-Policy"].replace(";", " ").split()
    assert labs.admin("DELETE", f"{path}{row['uuid']}/").status_code == 204
    assert labs.admin("GET", path).json() == []
    assert labs.admin("GET", f"{path}{row['uuid']}/").status_code == 404


def test_wrong_method(labs: Labs, asset: Asset, refused: Refused) -> None:
    refused(labs.admin("PUT", f"assets/{asset.pk}/attachments/", PDF), 405)


def test_other_labs_and_roles(labs: Labs, asset: Asset, refused: Refused) -> None:
    path = f"assets/{asset.pk}/attachments/"
    uuid = labs.admin("POST", path, PDF).json()["uuid"]
    other = bought(labs.ours, name="Another")
    for method, address in (
        ("GET", path), ("POST", path), ("GET", f"{path}{uuid}/"), ("DELETE", f"{path}{uuid}/"),
    ):  # fmt: skip
        refused(labs.viewer(method, address, PDF if method == "POST" else None), 403)
        refused(labs.outsider(method, address, PDF if method == "POST" else None), 404)
        refused(labs.nobody(method, address), 401)
    refused(labs.admin("GET", f"assets/{other.pk}/attachments/{uuid}/"), 404)
    assert Attachment.objects.filter(deleted_us=None).count() == 1


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, "invalid"),
        (b"<html>", 400, "invalid"),
        (b"{}", 400, "invalid"),
        (PDF + bytes(10_000_000), 413, "too_large"),
    ],
)
def test_invalid_files(
    labs: Labs, asset: Asset, refused: Refused, content: bytes, status: int, code: str
) -> None:
    answer = labs.admin("POST", f"assets/{asset.pk}/attachments/", content)
    error = refused(answer, status)
    assert (error["code"], error["field"]) == (code, "file")


def test_quota_and_unknown_parameters(labs: Labs, asset: Asset, refused: Refused) -> None:
    path = f"assets/{asset.pk}/attachments/"
    with override_settings(ATTACHMENTS_QUOTA_BYTES=len(PDF) - 1):
        assert refused(labs.admin("POST", path, PDF), 413)["code"] == "quota_exceeded"
    assert refused(labs.admin("POST", f"{path}?name=x", PDF), 400)["field"] == "name"


def test_contact_and_order_number(labs: Labs, asset: Asset, refused: Refused) -> None:
    facts = {"contact": "it-help@example.org", "order_number": "PO-2026-17"}
    assert labs.admin("PATCH", f"assets/{asset.pk}/", facts).status_code == 200
    stored = labs.viewer("GET", f"assets/{asset.pk}/").json()
    assert {name: stored[name] for name in facts} == facts
    refused(labs.admin("PATCH", f"assets/{asset.pk}/", {"contact": "x" * 201}), 400)
