"""/activities/import/: a file, its columns, its preview, and what was recorded."""

import csv
import io
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.activity.models import Activity, ActivityFile
from apps.core.jobs import run_until_idle
from tests.activity.files import MIXED, many_rows
from tests.builders import SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of

pytestmark = pytest.mark.django_db
UPLOAD = "/activities/import/"


def uploaded(client: Client, text: str | bytes, **more: str) -> str:
    """Upload a file; return the address of its columns."""
    content = text.encode() if isinstance(text, str) else text
    answer = client.post(UPLOAD, {"file": SimpleUploadedFile("use.csv", content), **more})
    assert answer.status_code == 302, text_of(answer)
    return str(answer["Location"])


def proposed(client: Client, address: str) -> dict[str, str]:
    """Return the columns of a mapping page as proposed."""
    page = text_of(client.get(address))
    fields = re.findall(r'<tr data-field="(.*?)">', page)
    return {f"column{i}": field for i, field in enumerate(fields)}


def previewed(client: Client, text: str | bytes, **more: str) -> str:
    """Upload a file and assign its columns as proposed; return the address of its preview."""
    address = uploaded(client, text)
    answer = client.post(address, proposed(client, address) | more)
    assert answer.status_code == 302, text_of(answer)
    return str(answer["Location"])


def state_of(client: Client, address: str) -> tuple[str, ...]:
    page = text_of(client.get(address))
    found = re.search(
        r'data-state="(\w+)"\s+data-new="(\d+)"\s+data-known="(\d+)"\s+data-wrong="(\d+)"', page
    )
    return found.groups() if found else ("",)


def test_columns_preview_and_confirmation(lab: SmallLab, member: Client) -> None:
    mapping = uploaded(member, MIXED)
    assert list(proposed(member, mapping).values()) == [
        "kind", "id", "name", "project", "from", "last_day", "zone", "kwh", "provider",
        "tb_months", "medium",
    ]  # fmt: skip
    preview = previewed(member, MIXED)
    assert state_of(member, preview) == ("checked", "3", "0", "2")
    page = text_of(member.get(preview))
    assert re.findall(r'data-line="(\d+)" data-bad-field="(\w+)"', page) == [
        ("4", "project"),
        ("5", "from"),
    ]
    assert not Activity.objects.exists()
    assert member.post(preview).status_code == 302
    waiting = text_of(member.get(preview))
    assert 'data-state="recording"' in waiting
    assert 'hx-trigger="every 2s"' in waiting
    run_until_idle(worker="test")
    assert state_of(member, preview) == ("done", "3", "0", "2")
    assert Activity.objects.count() == 3
    assert 'data-state="done"' in text_of(member.get(UPLOAD))
    again = previewed(member, MIXED)
    assert state_of(member, again) == ("checked", "0", "3", "2")
    assert member.post(again).status_code == 409


def test_bad_rows_as_csv_without_formulas(lab: SmallLab, owner: Client) -> None:
    text = (
        "kind,name,project,from,last day,zone,kwh\n"
        "file_server,\"=cmd|'/c calc'!A1\",@x,2026-10-01,2026-10-02,DE,1\n"
        "file_server,-2+3,demo,2026-10-01,2026-10-02,DE,=1+1\n"
    )
    preview = previewed(owner, text)
    answer = owner.get(f"{preview}errors.csv")
    content = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    rows = list(csv.DictReader(io.StringIO(content)))
    assert [(row["line"], row["field"]) for row in rows] == [("2", "project"), ("3", "kwh")]
    assert all(row["reason"] for row in rows)
    for row in rows:
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())


def test_a_name_with_a_formula_stays_text(lab: SmallLab, owner: Client) -> None:
    text = "kind,name,from,last day,zone,kwh\nfile_server,=1+1,2026-10-01,2026-10-02,DE,1\n"
    owner.post(previewed(owner, text))
    run_until_idle(worker="test")
    assert Activity.objects.get().name == "=1+1"
    content = b"".join(owner.get("/activities.csv").streaming_content).decode()  # type: ignore[attr-defined]
    assert ",'=1+1," in content


def test_one_kind_for_all_rows(lab: SmallLab, owner: Client) -> None:
    address = uploaded(owner, many_rows(3))
    columns = proposed(owner, address)
    refused = owner.post(address, columns)
    assert refused.status_code == 400
    assert 'data-field-error="kind"' in text_of(refused)
    assert owner.post(address, columns | {"kind": "nope"}).status_code == 400
    owner.post(address, columns | {"kind": "file_server"})
    preview = address.removesuffix("mapping/")
    assert state_of(owner, preview) == ("checked", "3", "0", "0")
    owner.post(preview)
    run_until_idle(worker="test")
    assert Activity.objects.filter(kind="file_server").count() == 3
    next_file = text_of(owner.get(uploaded(owner, many_rows(4))))
    assert re.search(r'value="file_server"\s+selected', next_file), "as the last file"


def test_questions_about_days_and_numbers(lab: SmallLab, owner: Client) -> None:
    text = "name,from,last day,zone,kwh\nnas,03/04/2026,05/04/2026,DE,1.500\n"
    address = uploaded(owner, text)
    page = text_of(owner.get(address))
    assert "3 April 2026" in page
    assert "4 March 2026" in page
    columns = proposed(owner, address) | {"kind": "file_server"}
    missing = text_of(owner.post(address, columns))
    assert 'data-field-error="date_order"' in missing
    assert 'data-field-error="decimal"' in missing
    answer = owner.post(address, columns | {"date_order": "dmy", "decimal": ","})
    assert answer.status_code == 302
    assert ActivityFile.objects.get().new == 1


def test_a_long_file_is_checked_by_a_job(
    lab: SmallLab, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.activity.services.activity_files.SYNCHRONOUS_ROWS", 5)
    preview = previewed(owner, many_rows(8), kind="file_server")
    assert 'data-state="checking"' in text_of(owner.get(preview))
    assert owner.post(preview).status_code == 409
    run_until_idle(worker="test")
    assert state_of(owner, preview) == ("checked", "8", "0", "0")


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "file"),
        (b"kind\n", "file"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "file"),
        (b"PK\x03\x04broken", "file"),
        (b"name\n\x01\xa0\x80", "file"),
        (b"name\na\x00b\n", "file"),
    ],
)
def test_files_that_cannot_be_read(
    lab: SmallLab, owner: Client, content: bytes, field: str
) -> None:
    answer = owner.post(UPLOAD, {"file": SimpleUploadedFile("use.csv", content)})
    assert answer.status_code == 400
    assert f'data-field-error="{field}"' in text_of(answer)
    assert not ActivityFile.objects.exists()


def test_invalid_columns(lab: SmallLab, owner: Client) -> None:
    address = uploaded(owner, MIXED)
    columns = proposed(owner, address)
    for wrong in (
        columns | {"column0": "nope"},
        columns | {"column0": "name"},
        columns | {"column4": ""},
        columns | {"kind": "file_server"},
    ):
        assert owner.post(address, wrong).status_code == 400
    assert owner.post(UPLOAD, {}).status_code == 400
    assert ActivityFile.objects.get().state == "mapping"


def test_hostile_cells_stay_text(lab: SmallLab, owner: Client) -> None:
    quoted = HOSTILE.replace('"', '""')
    text = f'kind,"{quoted}",name,from\nx,"{quoted}","{quoted}","{quoted}"\n'
    address = uploaded(owner, text)
    for page in (address, previewed(owner, text), UPLOAD):
        shown = text_of(owner.get(page))
        assert "<script>alert" not in shown
        assert "onerror=alert(2)>" not in shown.replace("&gt;", "")


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    few = previewed(owner, many_rows(4, 2), kind="file_server")
    many = previewed(owner, many_rows(200, 2), kind="file_server")
    assert queries(owner, few) == queries(owner, many)
    assert queries(owner, f"{few}mapping/") == queries(owner, f"{many}mapping/")


def test_roles_methods_and_other_labs(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    preview = previewed(owner, MIXED)
    mapping, errors = f"{preview}mapping/", f"{preview}errors.csv"
    for where in (UPLOAD, preview, mapping):
        assert viewer.get(where).status_code == 403
        assert viewer.post(where).status_code == 403
        assert_needs_sign_in(where)
        assert_only(owner, where, "GET", "POST")
    assert viewer.get(errors).status_code == 403
    assert_only(owner, errors, "GET")
    for where in (preview, mapping, errors):
        assert outsider.get(where).status_code == 404
    assert outsider.post(preview).status_code == 404
    assert outsider.post(mapping, {"kind": "file_server"}).status_code == 404
    assert ActivityFile.objects.get().state == "checked"
    assert 'href="/activities/import/"' not in text_of(viewer.get("/activities/"))
    assert 'href="/activities/import/"' in text_of(owner.get("/activities/"))


@pytest.mark.parametrize("day", ["9999-12", "0001-01"])
def test_an_impossible_year_is_a_bad_row(lab: SmallLab, owner: Client, day: str) -> None:
    text = f"kind,name,month,zone,kwh\nfile_server,a,{day},DE,1\nfile_server,b,2026-10,DE,1\n"
    preview = previewed(owner, text)
    assert state_of(owner, preview) == ("checked", "1", "0", "1")
    last = "kind,name,from,last day,zone,kwh\nfile_server,a,2026-10-01,9999-12-31,DE,1\n"
    assert state_of(owner, previewed(owner, last)) == ("checked", "0", "0", "1")
