"""The audit log: every act that changes who may do what, or what figures rest on, chained row by row in each lab.

A row's digest covers all its fields and the digest before it, and the lab keeps the newest: an edited, removed, reordered
or cut-off row is named by :func:`verify`. Whoever can write the database can rewrite a whole chain; that too is seen by
comparing with a digest noted elsewhere (``manage.py verify_audit --expect``).
"""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max

from apps.accounts import credentials
from apps.accounts.models import AuditEntry, Lab, User
from apps.core.text import replace_unstorable

SERVER = "the server"
_FIELDS = ("sequence", "at_us", "actor", "user_id", "action", "subject", "details", "previous")


def _digest(row: AuditEntry) -> str:
    return credentials.entry_digest({"lab_id": row.lab_id, **{name: getattr(row, name) for name in _FIELDS}})


def hold(lab: Lab) -> Lab:
    """Queue at the lab's row until the transaction ends. Acts that also lock other rows hold the lab first: no deadlock.

    NO KEY UPDATE: rows that merely refer to the lab are written meanwhile.
    """
    return Lab.objects.select_for_update(no_key=True).get(pk=lab.pk)


@transaction.atomic
def record(
    *, lab: Lab, by: User | None, action: str, subject: str, details: dict[str, Any] | None = None, now: int, actor: str = ""
) -> AuditEntry:
    """Add an act to the lab's log, in the transaction of the act itself. ``by`` None: the server, or ``actor``.

    Writers queue at the lab's row, so that the chain stays one. ``details`` holds JSON values only, integers rather than
    floats.
    """
    locked_lab = hold(lab)
    row = AuditEntry(
        lab_id=locked_lab.pk,
        sequence=locked_lab.audit_sequence + 1,
        at_us=now,
        actor=replace_unstorable(actor or (by.get_username() if by else SERVER))[:200],
        user=by,
        action=action,
        subject=replace_unstorable(subject)[:300],
        details=replace_unstorable(details or {}),
        previous=locked_lab.audit_digest,
    )
    row.digest = _digest(row)
    row.save()
    Lab.objects.filter(pk=locked_lab.pk).update(audit_sequence=row.sequence, audit_digest=row.digest)
    return row


@dataclass(frozen=True)
class Finding:
    """The first row of a lab's log that does not fit, and why."""

    sequence: int
    what: str


def verify(lab: Lab, expected: tuple[int, str] | None = None) -> Finding | None:
    """Return the first row that does not fit, or None. ``expected`` is a (sequence, digest) noted earlier, elsewhere.

    Acts may be recorded meanwhile: the lab's newest row is read first, and what is newer is only counted.
    """
    head, digest = _head(lab)
    before, last = 0, ""
    for row in AuditEntry.objects.filter(lab=lab, sequence__lte=head).order_by("sequence").iterator(chunk_size=1000):
        finding = _misfit(row, before, last, expected)
        if finding is not None:
            return finding
        before, last = row.sequence, row.digest
    if before < max(head, expected[0] if expected else 0):
        return Finding(before + 1, "is missing: the end of the log was cut off")
    if last != digest:
        return Finding(before, "is not the newest row that the lab remembers: it was replaced")
    newest = AuditEntry.objects.filter(lab=lab).aggregate(newest=Max("sequence"))["newest"] or 0
    if newest > _head(lab)[0]:
        return Finding(newest, "is newer than the newest row that the lab remembers: it was added by other means")
    return None


def _head(lab: Lab) -> tuple[int, str]:
    return Lab.objects.values_list("audit_sequence", "audit_digest").get(pk=lab.pk)


def _misfit(row: AuditEntry, before: int, digest: str, expected: tuple[int, str] | None) -> Finding | None:
    if row.sequence != before + 1:
        return Finding(before + 1, "is missing: it was removed")
    if row.digest != _digest(row):
        return Finding(row.sequence, "was edited or put in another place: its digest is not that of what it says")
    if row.previous != digest:
        return Finding(row.sequence, f"does not follow row {before}: one of the two was replaced")
    if expected is not None and expected[0] == row.sequence and expected[1] != row.digest:
        return Finding(row.sequence, "is not the row whose digest was noted: the chain was written anew up to here")
    return None
