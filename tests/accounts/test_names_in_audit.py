"""Entries of the audit log refer to names; entries of before are chained again once."""

import importlib
import json
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db.models import QuerySet

from apps.accounts import audit
from apps.accounts.models import AuditEntry, Lab, Membership, PersonName, User
from apps.accounts.rechain import digest_of
from tests.builders import T0, SmallLab

NAME = "zaphod.beeblebrox"


def _stored(lab: Lab) -> str:
    rows = AuditEntry.objects.filter(lab=lab).values("actor", "subject", "details")
    return json.dumps(list(rows), ensure_ascii=False)


@pytest.fixture
def person(lab: SmallLab) -> User:
    user = User.objects.create_user(NAME, email="z@heart-of-gold.example", first_name="Zaphod",
                                    last_name="Beeblebrox")  # fmt: skip
    Membership.objects.create(lab=lab.lab, user=user, role="member")
    return user


def test_an_entry_contains_no_name_of_a_member(lab: SmallLab, person: User) -> None:
    details = {
        "person": NAME,
        "name": f"laptop of {NAME.upper()}",
        "mails": ["to z@heart-of-gold.example"],
        "change": {"from": "Zaphod Beeblebrox", "to": 3},
        "reason": "Mr. Dent asked",
    }
    row = audit.record(
        lab=lab.lab,
        by=person,
        action="test.act",
        subject=f"/home/{NAME}/x",
        details=details,
        now=T0,
    )
    for part in ("eeblebrox", "EEBLEBROX", "heart-of-gold", "Dent"):
        assert part not in _stored(lab.lab)
    row.refresh_from_db()
    assert audit.with_names(row) == audit.NamedEntry(NAME, f"/home/{NAME}/x", details)
    assert audit.verify(lab.lab) is None


def test_an_os_user_is_a_name_from_its_first_entry_on(lab: SmallLab) -> None:
    for details in ({"os_user": "tmarvin"}, {"name": "disk of tmarvin"}):
        audit.record(lab=lab.lab, by=None, action="test.act", subject="x", details=details, now=T0)
    assert "tmarvin" not in _stored(lab.lab)


def test_common_words_and_parts_of_words_stay(lab: SmallLab) -> None:
    for name in ("admin", "ada"):
        user = User.objects.create_user(name)
        Membership.objects.create(lab=lab.lab, user=user, role="admin")
    row = audit.record(
        lab=lab.lab, by=None, action="test.act", subject="metadata of Canada",
        details={"role": "admin"}, now=T0,
    )  # fmt: skip
    assert (row.subject, row.details) == ("metadata of Canada", {"role": "admin"})


def test_a_typed_reference_is_text(lab: SmallLab, person: User) -> None:
    audit.record(lab=lab.lab, by=person, action="test.act", subject="x", now=T0)
    number = PersonName.objects.get(text=NAME).pk
    row = audit.record(lab=lab.lab, by=None, action="test.act", subject=f"⟦name {number}⟧", now=T0)
    assert audit.with_names(row).subject == f"[name {number}]"


def _write_as_before(lab: Lab, person: User) -> tuple[int, str]:
    """Write entries with names, as earlier versions did. Return the head."""
    lab.refresh_from_db()
    sequence, digest = lab.audit_sequence, lab.audit_digest
    for subject, details in (
        (NAME, {"role": "member"}),
        ("x", {"email": "guest@else.example", "note": f"for {NAME}", "n": 1}),
        ("plain", {}),
    ):
        sequence += 1
        row = AuditEntry(
            lab=lab, sequence=sequence, at_us=T0, actor=NAME, user=person, action="member.role",
            subject=subject, details=details, previous=digest,
        )  # fmt: skip
        row.digest = digest = digest_of(row)
        row.save()
    Lab.objects.filter(pk=lab.pk).update(audit_sequence=sequence, audit_digest=digest)
    lab.refresh_from_db()
    assert audit.verify(lab) is None
    return sequence, digest


def _migrate() -> None:
    module: Any = importlib.import_module("apps.accounts.migrations.0003_person_names")
    module.replace_names(apps, None)


def test_entries_of_before_are_chained_again_once(lab: SmallLab, person: User) -> None:
    old = _write_as_before(lab.lab, person)
    before = [audit.with_names(row) for row in AuditEntry.objects.filter(lab=lab.lab)]
    _migrate()
    assert audit.verify(lab.lab) is None
    assert NAME not in _stored(lab.lab)
    assert "guest@else.example" not in _stored(lab.lab)
    rows = list(AuditEntry.objects.filter(lab=lab.lab))
    assert [audit.with_names(row) for row in rows[:-1]] == before
    statement = rows[-1]
    assert statement.action == "audit.rechained"
    assert statement.details["old"] == f"{old[0]}:{old[1]}"
    assert statement.details["new"] == f"{old[0]}:{rows[-2].digest}"
    _migrate()
    assert AuditEntry.objects.filter(lab=lab.lab).count() == len(rows), "once"


def test_a_digest_noted_before_is_compared_with_the_stated_old_head(
    lab: SmallLab, person: User
) -> None:
    old = _write_as_before(lab.lab, person)
    _migrate()
    slug, out = lab.lab.slug, StringIO()
    call_command("verify_audit", "--lab", slug, "--expect", f"{old[0]}:{old[1]}", stdout=out)
    with pytest.raises(CommandError):
        call_command("verify_audit", "--lab", slug, "--expect", f"{old[0]}:{'0' * 64}", stdout=out)
    assert "old head" in out.getvalue()


def test_an_invalid_log_is_left_as_it_is(lab: SmallLab, person: User) -> None:
    _write_as_before(lab.lab, person)
    QuerySet(AuditEntry).filter(lab=lab.lab, subject="plain").update(subject="edited")
    finding, stored = audit.verify(lab.lab), _stored(lab.lab)
    assert finding is not None
    _migrate()
    assert (audit.verify(lab.lab), _stored(lab.lab)) == (finding, stored)
