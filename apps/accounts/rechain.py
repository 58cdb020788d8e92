"""Chain the entries of an audit log again after names in them were replaced.

Nothing else may change an entry. An entry at the end states the old and the new head. A log that is
not valid is left as it is, so that its finding stays.
"""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from apps.accounts.credentials import entry_digest
from apps.accounts.person_names import SERVER

RECHAINED = "audit.rechained"
FIELDS = ("sequence", "at_us", "actor", "user_id", "action", "subject", "details", "previous")
Change = Callable[[Any], bool]


def digest_of(row: Any) -> str:
    """Return the digest of an entry."""
    return entry_digest({"lab_id": row.lab_id, **{name: getattr(row, name) for name in FIELDS}})


def is_chain_valid(model: Any, lab: Any) -> bool:
    """Return whether each entry has its digest and follows the one before, up to the lab's head."""
    sequence, digest = 0, ""
    for row in _rows(model, lab):
        if (row.sequence, row.previous) != (sequence + 1, digest) or row.digest != digest_of(row):
            return False
        sequence, digest = row.sequence, row.digest
    return (sequence, digest) == (lab.audit_sequence, lab.audit_digest)


def rechain(model: Any, lab: Any, change: Change, now: int) -> bool:
    """Apply ``change`` to each entry of a lab. Return whether one changed; then the chain is new.

    ``model`` and ``lab``: of the application or of a migration. The lab's row is locked.
    """
    if not is_chain_valid(model, lab):
        return False
    old, previous, first, count = _head(lab), "", 0, 0
    for row in _rows(model, lab):
        if change(row):
            first, count = first or row.sequence, count + 1
        if first:
            row.previous = previous
            row.digest = digest_of(row)
            # Not the manager of the application, which refuses every update.
            QuerySet(model).filter(pk=row.pk).update(
                actor=row.actor, subject=row.subject, details=row.details,
                previous=row.previous, digest=row.digest,
            )  # fmt: skip
        previous = row.digest
    if not first:
        return False
    lab.audit_digest = previous
    statement = model(
        lab_id=lab.pk,
        sequence=lab.audit_sequence + 1,
        at_us=now,
        actor=SERVER,
        user_id=None,
        action=RECHAINED,
        subject="audit log",
        details={"old": old, "new": _head(lab), "first": first, "entries": count},
        previous=previous,
    )
    statement.digest = digest_of(statement)
    statement.save()
    lab.audit_sequence, lab.audit_digest = statement.sequence, statement.digest
    type(lab).objects.filter(pk=lab.pk).update(
        audit_sequence=lab.audit_sequence, audit_digest=lab.audit_digest
    )
    return True


def _rows(model: Any, lab: Any) -> Any:
    rows: Any = QuerySet(model).filter(lab_id=lab.pk, sequence__lte=lab.audit_sequence)
    return rows.order_by("sequence").iterator(chunk_size=1000)


def _head(lab: Any) -> str:
    return f"{lab.audit_sequence}:{lab.audit_digest}"
