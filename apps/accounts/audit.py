"""The audit log: actions that change permissions or inputs of figures, chained entry by entry in
each lab.

A row's digest covers all its fields and the digest before it, and the lab keeps the newest: an
edited, removed, reordered or cut-off row is named by :func:`verify`. Whoever can write the database
can rewrite a whole chain; that too is seen by comparing with a digest noted elsewhere (``manage.py
verify_audit --expect``).
"""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max

from apps.accounts.models import AuditEntry, Lab, PersonName, User
from apps.accounts.person_names import (
    SERVER,
    NameReferences,
    cut,
    named,
    names_in_entry,
    without_references,
)
from apps.accounts.rechain import RECHAINED
from apps.accounts.rechain import digest_of as _digest
from apps.core.text import replace_unstorable


def hold(lab: Lab) -> Lab:
    """Lock the lab's row until the transaction ends. Actions that lock other rows lock the lab
    first, to avoid deadlocks.

    NO KEY UPDATE: rows that merely refer to the lab are written meanwhile.
    """
    return Lab.objects.select_for_update(no_key=True).get(pk=lab.pk)


@transaction.atomic
def record(
    *,
    lab: Lab,
    by: User | None,
    action: str,
    subject: str,
    details: dict[str, Any] | None = None,
    now: int,
    actor: str = "",
) -> AuditEntry:
    """Add an entry to the lab's log, in the transaction of the action. ``by`` None: the server, or
    ``actor``.

    Writers queue at the lab's row, so that the chain stays one. ``details`` holds JSON values only,
    integers rather than floats. Names are stored apart, as the entry only refers to them.
    """
    locked_lab = hold(lab)
    actor, subject, stored = without_references(
        replace_unstorable(
            [(actor or (by.get_username() if by else SERVER))[:200], subject[:300], details or {}]
        )
    )
    names = names_in_entry(actor=actor, action=action, subject=subject, details=stored)
    references = NameReferences(PersonName, locked_lab.pk, member_names(locked_lab))
    row = AuditEntry(
        lab_id=locked_lab.pk,
        sequence=locked_lab.audit_sequence + 1,
        at_us=now,
        actor=cut(references.refer(actor, names), 200),
        user=by,
        action=action,
        subject=cut(references.refer(subject, names), 300),
        details=references.refer(stored, names),
        previous=locked_lab.audit_digest,
    )
    row.digest = _digest(row)
    row.save()
    Lab.objects.filter(pk=locked_lab.pk).update(
        audit_sequence=row.sequence, audit_digest=row.digest
    )
    return row


def member_names(lab: Lab) -> list[str]:
    """Return user name, full name and e-mail of each member of a lab. One query."""
    members = User.objects.filter(memberships__lab=lab)
    return [
        name
        for username, first, last, email in members.values_list(
            "username", "first_name", "last_name", "email"
        )
        for name in (username, f"{first} {last}".strip(), email)
        if name
    ]


@dataclass(frozen=True)
class NamedEntry:
    """The texts of an entry with names in place of references."""

    actor: str
    subject: str
    details: dict[str, Any]


def names_of(lab: Lab) -> dict[int, str]:
    """Return the names that the entries of a lab refer to. One query."""
    return dict(PersonName.objects.filter(lab=lab).values_list("pk", "text"))


def with_names(entry: AuditEntry, names: dict[int, str] | None = None) -> NamedEntry:
    """Return an entry with names. ``names``: of the lab, if already read."""
    if names is None:
        names = names_of(entry.lab)
    return NamedEntry(
        named(entry.actor, names), named(entry.subject, names), named(entry.details, names)
    )


@dataclass(frozen=True)
class Finding:
    """The first invalid entry of a lab's log, and the reason."""

    sequence: int
    reason: str


def verify(lab: Lab, expected: tuple[int, str] | None = None) -> Finding | None:
    """Return the first invalid entry, or None. ``expected``: a (sequence, digest) that was saved
    outside the server.

    Acts may be recorded meanwhile: the lab's newest row is read first, and what is newer is only
    counted.
    """
    head, digest = _head(lab)
    before, last = 0, ""
    for row in (
        AuditEntry.objects.filter(lab=lab, sequence__lte=head)
        .order_by("sequence")
        .iterator(chunk_size=1000)
    ):
        finding = _misfit(row, before, last, expected)
        if finding is not None:
            return finding
        before, last = row.sequence, row.digest
    if before < max(head, expected[0] if expected else 0):
        return Finding(before + 1, "is missing: the end of the log was removed")
    if last != digest:
        return Finding(before, "differs from the newest entry stored with the lab: it was replaced")
    newest = AuditEntry.objects.filter(lab=lab).aggregate(newest=Max("sequence"))["newest"] or 0
    if newest > _head(lab)[0]:
        return Finding(
            newest,
            (
                "is newer than the newest entry stored with the lab: it was added directly in the "
                "database"
            ),
        )
    return None


def _head(lab: Lab) -> tuple[int, str]:
    return Lab.objects.values_list("audit_sequence", "audit_digest").get(pk=lab.pk)


def _misfit(
    row: AuditEntry, before: int, digest: str, expected: tuple[int, str] | None
) -> Finding | None:
    if row.sequence != before + 1:
        return Finding(before + 1, "is missing: it was removed")
    if row.digest != _digest(row):
        return Finding(row.sequence, "was edited or moved: its digest does not match its content")
    if row.previous != digest:
        return Finding(row.sequence, f"does not follow entry {before}: one of the two was replaced")
    if expected is not None and expected[0] == row.sequence and expected[1] != row.digest:
        return _differs(row, expected)
    return None


def _differs(row: AuditEntry, expected: tuple[int, str]) -> Finding | None:
    """Return the finding for an entry whose digest is another one than expected. None if a later
    entry states the expected one as the head before names were replaced.
    """
    later = AuditEntry.objects.filter(
        lab_id=row.lab_id, sequence__gt=row.sequence, action=RECHAINED
    ).order_by("sequence")
    statements = list(later.values_list("sequence", "details"))
    if any(details.get("old") == f"{expected[0]}:{expected[1]}" for _, details in statements):
        return None
    reason = "differs from the expected digest: the chain was rewritten up to this entry"
    if statements:
        sequence, details = statements[0]
        reason += (
            f". Entry {sequence} states that names were replaced. Of digests saved before, only "
            f"that of its old head {details.get('old')} can be compared"
        )
    return Finding(row.sequence, reason)
