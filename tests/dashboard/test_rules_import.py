"""Many rules from CSV: read and previewed together, written all or none."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.attribution.models import AttributionRule
from apps.core.jobs import run_until_idle
from tests.builders import SmallLab
from tests.dashboard.support import HOUR, assert_needs_sign_in, assert_only, text_of
from tests.dashboard.test_unattributed import by_charge, used

GOOD = "os_user,node,project,from_day\nada,,demo,2026-11-01\n,ws-1,demo,2026-11-01\n"


def test_reading_previews_and_making_writes_all(lab: SmallLab, owner: Client) -> None:
    used(lab, ["proc:ada/x", "proc:ben/x", "unknown"])
    page = text_of(owner.post("/rules/import/", {"lines": GOOD}))
    assert 'data-lines="2" data-line-errors="0"' in page
    assert 'title="9000000 mJ"' in page
    assert "user ada" in page
    assert "everything on ws-1" in page
    assert not AttributionRule.objects.exists()
    assert owner.post("/rules/import/", {"lines": GOOD, "action": "create"}).status_code == 302
    run_until_idle(worker="test")
    assert by_charge(lab)["demo", HOUR].energy_mj == 9_000_000
    assert AttributionRule.objects.count() == 2


def test_a_file_is_read_too(lab: SmallLab, owner: Client) -> None:
    file = SimpleUploadedFile("rules.csv", b"\xef\xbb\xbf" + GOOD.encode())
    assert 'data-lines="2" data-line-errors="0"' in text_of(
        owner.post("/rules/import/", {"file": file})
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "No lines"),
        ("os_user,project", "No rules below"),
        ("colour\nred", "Unknown column"),
        ("a\x00b", 'data-field-error="lines"'),
        ("os_user\n" + "a\n" * 1001, "1000 lines"),
        ("x" * 200_001, "200,000"),
    ],
)
def test_a_wrong_file_is_told(lab: SmallLab, owner: Client, lines: str, words: str) -> None:
    answer = owner.post("/rules/import/", {"lines": lines})
    assert answer.status_code == 400
    assert words in text_of(answer)


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("zoe,,nosuch,", "project"),
        ("zoe,nowhere,demo,", "node"),
        (",,demo,", "os_user"),
        ("zoe,,demo,soon", "from_day"),
        ("zoe,,,", "project"),
    ],
)
def test_one_wrong_line_writes_nothing_and_is_named(
    lab: SmallLab, owner: Client, line: str, column: str
) -> None:
    page = text_of(owner.post("/rules/import/", {"lines": GOOD + line, "action": "create"}))
    assert f'data-error-columns="{column}"' in page
    assert 'data-line-errors="1"' in page
    assert not AttributionRule.objects.exists()


def test_a_rule_that_is_there_already_stops_all(lab: SmallLab, owner: Client) -> None:
    owner.post(
        "/rules/import/",
        {"lines": "os_user,project,from_day\nada,demo,2026-11-01", "action": "create"},
    )
    assert owner.post("/rules/import/", {"lines": GOOD, "action": "create"}).status_code == 409
    assert AttributionRule.objects.count() == 1


def test_roles_methods(lab: SmallLab, owner: Client, viewer: Client) -> None:
    assert viewer.get("/rules/import/").status_code == 403
    assert viewer.post("/rules/import/", {"lines": GOOD, "action": "create"}).status_code == 403
    assert_needs_sign_in("/rules/import/")
    assert_only(owner, "/rules/import/", "GET", "POST")
