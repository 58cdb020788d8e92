"""Attachments: recognised by content, stored under the server's names, limited, and erased."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, override_settings

from apps.accounts.models import AuditEntry
from apps.assets import attachment_files
from apps.assets.attachment_files import StorageFull, StorageProblem, download_name, recognise
from apps.assets.models import Asset, Attachment
from apps.assets.services.attachments import (
    attach,
    attachments_of,
    content_of,
    delete_attachment,
    erase_deleted,
    remove_orphans,
)
from apps.core.errors import Conflict, InvalidInput, TooLarge
from apps.core.jobs import run_until_idle
from tests.assets.support import bought
from tests.builders import T0, SmallLab

PDF = b"%PDF-1.7\n1 0 obj\n%%EOF\n"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(17)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
HTML = b"<!doctype html><script>alert(1)</script>"
DAY_US = 86_400_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    with override_settings(ATTACHMENTS_DIR=tmp_path / "attachments"):
        yield tmp_path / "attachments"


@pytest.fixture
def asset(lab: SmallLab, folder: Path) -> Asset:
    return bought(lab)


def add(asset: Asset, content: bytes = PDF, name: str = "invoice.pdf") -> Attachment:
    return attach(asset=asset, file_name=name, content=content, by=None, now=T0)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("content", "media_type"),
    [(PDF, "application/pdf"), (PNG, "image/png"), (JPEG, "image/jpeg")],
)
def test_the_content_decides_the_type(content: bytes, media_type: str) -> None:
    assert recognise(content) == media_type


@pytest.mark.parametrize(
    "content",
    [
        b"",
        HTML,
        b" %PDF-1.7",
        HTML + PDF,
        b"%PDF",
        b"GIF89a",
        b"PK\x03\x04",
        b"MZ",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        PNG[:8],
        PNG[:8] + HTML,
        b"\xff\xd8",
    ],
)
def test_other_content_is_refused(asset: Asset, folder: Path, content: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        add(asset, content)
    assert refused.value.field == "file"
    assert (Attachment.objects.count(), files(folder)) == (0, [])


def test_ten_megabytes_and_no_byte_more(asset: Asset, folder: Path) -> None:
    whole = PDF + bytes(attachment_files.MAX_BYTES - len(PDF))
    assert add(asset, whole).bytes == 10_000_000
    with pytest.raises(TooLarge):
        add(asset, whole + b"x")
    assert len(files(folder)) == 1


@pytest.mark.parametrize(
    ("text", "content", "name"),
    [
        ("Invoice 7.PDF", PDF, "Invoice 7.PDF"),
        ("invoice.html", PDF, "invoice.html.pdf"),
        ("photo.jpeg", JPEG, "photo.jpeg"),
        ("photo.png", JPEG, "photo.png.jpg"),
        ("../../etc/passwd", PNG, "passwd.png"),
        ("C:\\fakepath\\a.png", PNG, "a.png"),
        ("a\r\nX-Evil: 1.pdf", PDF, "aX-Evil: 1.pdf"),
        ("gnp.\u202efdp", PDF, "gnp.fdp.pdf"),
        ("", PDF, "attachment.pdf"),
        (".pdf", PDF, "attachment.pdf"),
        ("a" * 400, PDF, "a" * 150 + ".pdf"),
    ],
)
def test_the_name_for_downloads(text: str, content: bytes, name: str) -> None:
    assert download_name(text, recognise(content)) == name


def test_stored_under_a_name_of_the_server_and_private(asset: Asset, folder: Path) -> None:
    row = add(asset, name="../../../secret.pdf")
    [path] = files(folder)
    assert str(path.relative_to(folder)) == row.file
    assert path.name.startswith(row.uuid.hex)
    assert "secret" not in str(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert content_of(row) == PDF
    assert attachments_of(asset) == [row]


def test_a_damaged_or_missing_file_is_reported_and_never_served(asset: Asset, folder: Path) -> None:
    row = add(asset)
    [path] = files(folder)
    path.write_bytes(HTML)
    with pytest.raises(StorageProblem, match="checksum"):
        content_of(row)
    path.unlink()
    with pytest.raises(StorageProblem, match="cannot be read"):
        content_of(row)


def test_the_quota_is_that_of_the_lab(asset: Asset, folder: Path) -> None:
    with override_settings(ATTACHMENTS_QUOTA_BYTES=2 * len(PDF)):
        first, _ = add(asset), add(asset)
        with pytest.raises(TooLarge) as refused:
            add(asset)
        assert refused.value.code == "quota_exceeded"
        assert "LABCARBON_ATTACHMENTS_MB" in refused.value.hint
        assert len(files(folder)) == 2
        delete_attachment(attachment=first, by=None, now=T0)
        add(asset)  # a deleted one uses no room


def test_an_asset_has_a_limited_number(asset: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.assets.services.attachments.MAX_PER_ASSET", 2)
    add(asset), add(asset)
    with pytest.raises(Conflict):
        add(asset)


@pytest.mark.parametrize(
    ("number", "error", "status"),
    [
        (errno.ENOSPC, StorageFull, 507),
        (errno.EDQUOT, StorageFull, 507),
        (errno.EROFS, StorageProblem, 503),
        (errno.EACCES, StorageProblem, 503),
    ],
)
def test_a_full_disk_is_a_clear_error_and_nothing_is_left(
    asset: Asset,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: type[StorageProblem],
    status: int,
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(attachment_files.os, "fsync", full)
    with pytest.raises(error) as refused:
        add(asset)
    assert refused.value.status == status
    assert refused.value.hint
    assert (Attachment.objects.count(), files(folder)) == (0, [])


def test_a_failed_row_leaves_no_file(
    asset: Asset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("apps.assets.services.attachments.note_act", fail)
    with pytest.raises(RuntimeError):
        add(asset)
    assert (Attachment.objects.count(), files(folder)) == (0, [])


def test_deleted_is_erased_with_its_name(lab: SmallLab, asset: Asset, folder: Path) -> None:
    row = attach(asset=asset, file_name="Ada Lovelace.pdf", content=PDF, by=lab.owner, now=T0)
    kept = add(asset, PNG)
    delete_attachment(attachment=row, by=lab.owner, now=T0 + 1)
    assert attachments_of(asset) == [kept]
    run_until_idle(worker="test")
    assert [path.name for path in files(folder)] == [Path(kept.file).name]
    row.refresh_from_db()
    assert (row.name, row.sha256, row.added_by) == ("", "", None)
    assert row.erased_us is not None
    assert erase_deleted(T0) == 0
    entries = AuditEntry.objects.filter(lab=lab.lab, action__startswith="asset.attach")
    assert {entry.action for entry in entries} == {"asset.attached", "asset.attachment_deleted"}
    assert "Ada" not in str(list(entries.values()))


def test_a_file_that_cannot_be_erased_is_tried_again(
    lab: SmallLab, asset: Asset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = add(asset)
    delete_attachment(attachment=row, by=None, now=T0)

    def fail(*_: object) -> None:
        raise PermissionError(errno.EACCES, "denied")

    with monkeypatch.context() as patch:
        patch.setattr(attachment_files, "delete_file", fail)
        with pytest.raises(PermissionError):
            erase_deleted(T0)
    assert erase_deleted(T0) == 1
    assert files(folder) == []


def test_files_without_a_row_are_removed_after_a_day(asset: Asset, folder: Path) -> None:
    row = add(asset)
    for name in ("ab/orphan.attachment", "ab/.x.attachment.partial"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(PDF)
    changed_us = int((folder / "ab/orphan.attachment").stat().st_mtime * 1e6)
    assert remove_orphans(changed_us + DAY_US // 2) == 0
    assert remove_orphans(changed_us + 2 * DAY_US) == 2
    assert [path.name for path in files(folder)] == [Path(row.file).name]


# ---- the page ----


def post(client: Client, asset: Asset, **data: Any) -> Any:
    return client.post(f"/assets/{asset.pk}/", data)


def test_attached_downloaded_and_deleted_on_the_page(
    lab: SmallLab, asset: Asset, folder: Path
) -> None:
    client = Client()
    client.force_login(lab.owner, backend="django.contrib.auth.backends.ModelBackend")
    upload = SimpleUploadedFile("invoice.pdf", PDF, content_type="text/html")
    assert post(client, asset, action="attach", file=upload).status_code == 302
    row = Attachment.objects.get()
    page = client.get(f"/assets/{asset.pk}/").content.decode()
    address = f"/assets/{asset.pk}/attachments/{row.uuid}/"
    assert address in page
    response = client.get(address)
    assert response.content == PDF
    assert response["Content-Type"] == "application/pdf"
    assert response["Content-Disposition"] == 'attachment; filename="invoice.pdf"'
    assert response["X-Content-Type-Options"] == "nosniff"
    directives = [part.strip() for part in response["Content-Security-Policy"].split(";")]
    assert "sandbox" in directives
    assert "default-src 'none'" in directives
    answer = post(client, asset, action="delete-attachment", attachment=row.uuid)
    assert answer.status_code == 302
    assert client.get(address).status_code == 404
    assert str(row.uuid) not in client.get(f"/assets/{asset.pk}/").content.decode()


@pytest.mark.parametrize(
    ("content", "status"), [(HTML, 400), (b"", 400), (PDF + bytes(10_000_001), 413)]
)
def test_the_page_shows_why_a_file_is_refused(
    lab: SmallLab, asset: Asset, content: bytes, status: int
) -> None:
    client = Client()
    client.force_login(lab.owner, backend="django.contrib.auth.backends.ModelBackend")
    upload = SimpleUploadedFile("a.pdf", content, content_type="application/pdf")
    answer = post(client, asset, action="attach", file=upload)
    assert answer.status_code == status
    assert 'data-field-error="file"' in answer.content.decode()
    assert Attachment.objects.count() == 0


def test_the_folder_is_in_the_data_directory() -> None:
    assert settings.ATTACHMENTS_DIR.parent == settings.DATA_DIR
