"""An erased name is in no archive file, no export of others, no response and no log line."""

import logging
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.test import override_settings
from rest_framework.test import APIClient

from apps.accounts.choices import Role
from apps.accounts.models import User
from apps.accounts.services.erasure import erase_person
from apps.accounts.services.labs import issue_node_token
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.units import hour_of
from tests.accounts.test_erasure import NAMES, person  # noqa: F401 - a fixture
from tests.api.conftest import add_person
from tests.attacks.routes import QUERY
from tests.builders import T0, SmallLab, W, batch_body
from tests.dashboard.conftest import client_of
from tests.dashboard.support import text_of
from tests.properties.archives import archived, seal

EXPORTS = (
    "/runs.csv", "/artifacts.csv", "/assets.csv", "/overview.csv", "/audit.csv", "/catalog.csv",
    f"/explain/ledger.csv{QUERY}", f"/explain/{QUERY}", "/scopes.csv", "/projects/demo/energy.csv",
    "/runs/duplicates.csv", "/artifacts/storage.csv", "/people/", "/audit/", "/runs/", "/rules/",
    "/nodes/", "/",
)  # fmt: skip


@pytest.fixture(autouse=True)
def archive(tmp_path: Path) -> Iterator[None]:
    with override_settings(ARCHIVE_DIR=tmp_path / "archive"):
        yield


def _has_name(content: str | bytes) -> bool:
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    return any(name.casefold() in text.casefold() for name in NAMES)


def _unpacked(content: bytes) -> bytes:
    """Return what each zlib stream in a file contains."""
    parts = []
    for at in range(len(content)):
        if content[at] == 0x78:
            try:
                parts.append(zlib.decompressobj().decompress(content[at:]))
            except zlib.error:
                continue
    return b"".join(parts)


def test_archive_exports_and_log_do_not_contain_the_name(
    lab: SmallLab,
    person: User,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    admin, other = client_of(lab.owner), add_person(lab, Role.MEMBER)
    assert any(_has_name(text_of(admin.get(address))) for address in EXPORTS)
    seal(hour_of(T0) + 1)
    assert archived()
    caplog.clear()
    erase_person(person=person, names=["zbeeb"], labs=[lab.lab], by=lab.owner, now=now_us())
    token = issue_node_token(lab=lab.lab, node_uuid=lab.node.uuid, now=now_us())
    client = APIClient(headers={"authorization": f"Bearer {token}"})
    window = W("gpu:GPU-0000-0001", 500, start_us=T0 + 120_000_000, end_us=T0 + 180_000_000,
               seq=1, shares=(("proc:zbeeb/python", 500),))  # fmt: skip
    run = {"name": "Zaphod Beeblebrox", "started_at": "2026-11-02T00:00:00Z", "user": "zbeeb"}
    for sent in (
        client.post("/api/v1/ingest/", batch_body(lab.node, [window]), format="json"),
        client.put(f"/api/v1/runs/{uuid4()}/", run, format="json"),
        client.put(f"/api/v1/runs/{uuid4()}/", {"user": ["zbeeb"]}, format="json"),
    ):
        assert not _has_name(sent.content)
    run_until_idle(worker="test")
    files = [path.read_bytes() for path in settings.ARCHIVE_DIR.rglob("*") if path.is_file()]
    assert files
    for content in files:
        assert not _has_name(content)
        assert not _has_name(_unpacked(content))
    assert not _has_name(repr(archived()))
    for address in EXPORTS:
        answer = admin.get(address)
        assert answer.status_code == 200, address
        assert not _has_name(text_of(answer)), address
    for form in ("json", "csv"):
        answer = admin.get(f"/people/{other.pk}/export/?format={form}")
        assert answer.status_code == 200
        assert not _has_name(text_of(answer))
    lines = [_line(record) for record in caplog.records]
    assert not [line for line in lines if _has_name(line)]


def _line(record: Any) -> str:
    return f"{record.getMessage()} {record.exc_text or ''} {record.args}"
