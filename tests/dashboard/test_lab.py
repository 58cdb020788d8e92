"""/lab/: the lab's own settings."""

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Lab
from apps.core.clock import now_us
from tests.api.conftest import add_person
from tests.builders import SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, text_of

FORM = {"lab": "Cell Lab", "time_zone": "Europe/Berlin", "person_view": "pi"}


def _lab(lab: SmallLab) -> Lab:
    return Lab.objects.get(pk=lab.lab.pk)


def test_each_change_is_made_and_dated(lab: SmallLab, owner: Client) -> None:
    before = now_us()
    changed = {"lab": " Atlas Lab ", "time_zone": "Asia/Kolkata", "person_view": "own"}
    assert owner.post("/lab/", changed)["Location"] == "/lab/"
    found = _lab(lab)
    assert (found.name, found.time_zone, found.person_view, found.slug) == ("Atlas Lab", "Asia/Kolkata", "own", "cell-lab")
    row = AuditEntry.objects.get(action="lab.changed")
    assert row.at_us >= before
    assert row.details == {
        "name": {"from": "Cell Lab", "to": "Atlas Lab"},
        "time_zone": {"from": "Europe/Berlin", "to": "Asia/Kolkata"},
        "person_view": {"from": "pi", "to": "own"},
    }
    page = text_of(owner.get("/lab/"))
    assert "Settings of Atlas Lab" in page
    assert "The settings are changed" in page
    assert "everyone sees only their own energy" in text_of(owner.get("/people/"))
    assert "pi → own" in text_of(owner.get("/audit/"))


def test_nothing_different_is_no_act(lab: SmallLab, owner: Client) -> None:
    owner.post("/lab/", FORM)
    assert not AuditEntry.objects.filter(action="lab.changed").exists()
    assert "Nothing was different" in text_of(owner.get("/lab/"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lab": " "}, "needs a name"),
        ({"lab": "x" * 201}, "longer than 200"),
        ({"time_zone": "Berlin"}, "Did you mean Europe/Berlin"),
        ({"time_zone": "\x00"}, "is not a time zone"),
        ({"person_view": "all"}, "is not a policy"),
        ({"person_view": ""}, "is not a policy"),
    ],
)
def test_bad_input_changes_nothing_and_is_told(lab: SmallLab, owner: Client, change: dict[str, str], words: str) -> None:
    response = owner.post("/lab/", {**FORM, "lab": "Other name", **change})
    assert response.status_code == 400
    assert words in text_of(response)
    assert _lab(lab).name == "Cell Lab"
    assert not AuditEntry.objects.filter(action="lab.changed").exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.PI])
def test_others_look(lab: SmallLab, role: Role) -> None:
    client = client_of(add_person(lab, role))
    page = text_of(client.get("/lab/"))
    assert "Europe/Berlin" in page
    assert "<fieldset" not in page
    assert client.post("/lab/", {**FORM, "person_view": "lab"}).status_code == 403
    assert _lab(lab).person_view == "pi"


def test_read_only_fields_stay(lab: SmallLab, owner: Client) -> None:
    owner.post("/lab/", {**FORM, "lab": "New", "slug": "evil", "audit_sequence": "0", "audit_digest": "", "created_us": "1"})
    found = _lab(lab)
    assert (found.slug, found.created_us) == ("cell-lab", lab.lab.created_us)
    assert found.audit_sequence == AuditEntry.objects.count()


def test_a_rename_reaches_no_other_lab(lab: SmallLab, outsider: Client) -> None:
    outsider.post("/lab/", {**FORM, "lab": "Mine now"})
    assert _lab(lab).name == "Cell Lab"
    assert Lab.objects.get(slug="other-lab").name == "Mine now"


def test_anonymous_wrong_method_csrf_and_hostile_names(lab: SmallLab, owner: Client) -> None:
    assert_needs_sign_in("/lab/")
    assert_only(owner, "/lab/", "GET", "POST")
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.owner)
    assert client.post("/lab/", FORM).status_code == 403
    owner.post("/lab/", {**FORM, "lab": HOSTILE})
    assert "<script>alert" not in text_of(owner.get("/lab/"))
