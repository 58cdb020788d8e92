"""The audit log: one chain per lab, only ever added to, and whatever was done to it by other
means is named.
"""

import json
import threading
from collections.abc import Callable
from hashlib import sha256
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.audit import record, verify, with_names
from apps.accounts.credentials import entry_digest
from apps.accounts.models import AuditEntry, Lab, User
from apps.accounts.services.labs import create_project
from apps.core.errors import Conflict
from tests.builders import T0, SmallLab, small_lab

TABLE = "accounts_auditentry"


@pytest.fixture
def chain(lab: SmallLab) -> Lab:
    """Return a lab whose log has ten acts after those of its making."""
    for i in range(10):
        record(
            lab=lab.lab,
            by=lab.owner,
            action="test.act",
            subject=f"thing {i}",
            details={"n": i},
            now=T0 + i,
        )
    assert verify(lab.lab) is None
    return lab.lab


def _sql(text: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text, values)


def _newest(lab: Lab) -> int:
    return (
        AuditEntry.objects.filter(lab=lab)
        .order_by("-sequence")
        .values_list("sequence", flat=True)[0]
    )


def test_each_row_holds_the_digest_of_the_row_before(chain: Lab) -> None:
    rows = list(AuditEntry.objects.filter(lab=chain))
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    assert rows[0].previous == ""
    assert [row.previous for row in rows[1:]] == [row.digest for row in rows[:-1]]
    chain.refresh_from_db()
    assert (chain.audit_sequence, chain.audit_digest) == (rows[-1].sequence, rows[-1].digest)


def test_the_digest_is_what_the_documentation_says(chain: Lab) -> None:
    """docs/people.md: SHA-256 over canonical JSON of all fields; any program can do it again."""
    row = AuditEntry.objects.filter(lab=chain, action="test.act")[3]
    actor = json.dumps(row.actor)  # characters beyond ASCII escaped
    text = (
        f'{{"action":"test.act","actor":{actor},"at_us":{T0 + 3},"details":{{"n":3}},'
        f'"lab_id":{chain.pk},'
        f'"previous":"{row.previous}","sequence":{row.sequence},"subject":"thing '
        f'3","user_id":{row.user_id}}}'
    )
    assert sha256(text.encode()).hexdigest() == row.digest


_EDITS: dict[str, Any] = {
    "at_us": 5, "actor": "'mallory'", "user_id": "user_id + 1", "action": "'test.other'",
    "subject": "'else'", "details": """'{"n": 99}'""", "previous": "'" + "0" * 64 + "'",
    "digest": "'" + "0" * 64 + "'",
}  # fmt: skip


@pytest.mark.parametrize("column", _EDITS)
def test_an_edited_row_is_named(chain: Lab, column: str) -> None:
    _sql(
        f"UPDATE {TABLE} SET {column} = {_EDITS[column]} WHERE lab_id = %s AND sequence = 5",
        chain.pk,
    )
    finding = verify(chain)
    assert finding is not None
    assert finding.sequence == 5
    assert "edited" in finding.reason


def test_a_removed_row_is_named(chain: Lab) -> None:
    _sql(f"DELETE FROM {TABLE} WHERE lab_id = %s AND sequence = 6", chain.pk)
    finding = verify(chain)
    assert finding is not None
    assert (finding.sequence, "removed" in finding.reason) == (6, True)


def test_rows_in_another_order_are_named(chain: Lab) -> None:
    for old, new in ((4, -1), (7, 4), (-1, 7)):
        _sql(
            f"UPDATE {TABLE} SET sequence = %s WHERE lab_id = %s AND sequence = %s",
            new,
            chain.pk,
            old,
        )
    finding = verify(chain)
    assert finding is not None
    assert finding.sequence == 4


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_tail_that_was_cut_off_is_named(chain: Lab, rows: int) -> None:
    first_gone = max(1, _newest(chain) - rows + 1)
    _sql(f"DELETE FROM {TABLE} WHERE lab_id = %s AND sequence >= %s", chain.pk, first_gone)
    finding = verify(chain)
    assert finding is not None
    assert (finding.sequence, "end of the log" in finding.reason) == (first_gone, True)


def _forge(row: AuditEntry, **changes: object) -> str:
    fields = {
        name: getattr(row, name)
        for name in ("lab_id", "sequence", "at_us", "actor", "user_id", "action", "subject")
    }
    fields |= {"details": row.details, "previous": row.previous, **changes}
    return entry_digest(fields)


def test_a_row_replaced_with_a_digest_that_fits_itself_is_named_by_the_next(chain: Lab) -> None:
    row = AuditEntry.objects.get(lab=chain, sequence=5)
    digest = _forge(row, subject="else")
    _sql(
        f"UPDATE {TABLE} SET subject = 'else', digest = %s WHERE lab_id = %s AND sequence = 5",
        digest,
        chain.pk,
    )
    finding = verify(chain)
    assert finding is not None
    assert finding.sequence == 6
    assert "does not follow entry 5" in finding.reason


def test_the_newest_row_replaced_is_named(chain: Lab) -> None:
    newest = _newest(chain)
    digest = _forge(AuditEntry.objects.get(lab=chain, sequence=newest), subject="else")
    _sql(
        f"UPDATE {TABLE} SET subject = 'else', digest = %s WHERE lab_id = %s AND sequence = %s",
        digest,
        chain.pk,
        newest,
    )
    finding = verify(chain)
    assert finding is not None
    assert (finding.sequence, "replaced" in finding.reason) == (newest, True)


def test_a_row_added_by_other_means_is_named(chain: Lab) -> None:
    newest = _newest(chain)
    columns = "lab_id, at_us, actor, user_id, action, subject, details, previous, digest"
    _sql(
        f"INSERT INTO {TABLE} (sequence, {columns}) SELECT sequence + 1, {columns} FROM {TABLE} "
        "WHERE lab_id = %s AND sequence = %s",
        chain.pk,
        newest,
    )
    finding = verify(chain)
    assert finding is not None
    assert (finding.sequence, "directly in the database" in finding.reason) == (newest + 1, True)


def test_a_chain_written_anew_is_seen_with_a_digest_noted_elsewhere(chain: Lab) -> None:
    noted = (_newest(chain), chain.audit_digest)
    previous = ""
    for row in list(AuditEntry.objects.filter(lab=chain)):
        row.previous, row.actor = previous, "mallory"
        previous = _forge(row)
        _sql(
            f"UPDATE {TABLE} SET actor = 'mallory', previous = %s, digest = %s WHERE id = %s",
            row.previous,
            previous,
            row.pk,
        )
    _sql("UPDATE accounts_lab SET audit_digest = %s WHERE id = %s", previous, chain.pk)
    assert verify(chain) is None, "whoever writes the whole database can write a chain that fits"
    finding = verify(chain, (noted[0], "f" * 64))
    assert finding is not None
    assert finding.sequence == noted[0]


@pytest.mark.parametrize(
    "act",
    [
        lambda row: row.save(),
        lambda row: row.save(update_fields=["actor"]),
        lambda row: row.delete(),
        lambda row: AuditEntry.objects.filter(pk=row.pk).update(actor="mallory"),
        lambda row: AuditEntry.objects.filter(pk=row.pk).delete(),
        lambda row: AuditEntry.objects.update(actor="mallory"),
        lambda row: AuditEntry.objects.bulk_update([row], ["actor"]),
        lambda row: AuditEntry.objects.bulk_create([row]),
        lambda row: row.lab.audit.update(actor="mallory"),
        lambda row: AuditEntry(
            pk=row.pk,
            lab=row.lab,
            sequence=99,
            at_us=1,
            actor="m",
            action="x",
            subject="y",
            digest="z",
        ).save(),
    ],
)
def test_a_row_is_never_changed_through_the_models(
    chain: Lab, act: Callable[[AuditEntry], object]
) -> None:
    row = AuditEntry.objects.filter(lab=chain)[2]
    before = list(AuditEntry.objects.filter(lab=chain).values())
    row.actor = "mallory"
    with pytest.raises(Exception, match=r"cannot be changed|UNIQUE|unique"), transaction.atomic():
        act(row)
    assert list(AuditEntry.objects.filter(lab=chain).values()) == before


def test_deleting_an_account_changes_no_row(chain: Lab) -> None:
    person = User.objects.create_user("gone")
    record(lab=chain, by=person, action="test.act", subject="x", now=T0)
    person.delete()
    assert verify(chain) is None
    row = AuditEntry.objects.filter(lab=chain).order_by("-sequence")[0]
    assert (with_names(row).actor, row.user_id is not None) == ("gone", True)


def test_an_act_that_fails_leaves_no_row(chain: Lab) -> None:
    rows = AuditEntry.objects.count()
    with transaction.atomic():
        create_project(lab=chain, slug="new", name="New", now=T0)
        assert AuditEntry.objects.count() == rows + 1
        transaction.set_rollback(True)
    with pytest.raises(Conflict):
        create_project(lab=chain, slug="demo", name="Demo", now=T0)
    assert AuditEntry.objects.count() == rows
    assert verify(chain) is None


def test_each_lab_has_a_chain_of_its_own(chain: Lab) -> None:
    other = small_lab(name="Other Lab").lab
    record(lab=other, by=None, action="test.act", subject="theirs", now=T0)
    assert {row.lab_id for row in AuditEntry.objects.filter(lab=other)} == {other.pk}
    assert AuditEntry.objects.filter(lab=other)[0].sequence == 1
    _sql(f"UPDATE {TABLE} SET actor = 'm' WHERE lab_id = %s", other.pk)
    assert verify(chain) is None
    assert verify(other) is not None


def test_text_that_a_database_cannot_hold_is_replaced(chain: Lab) -> None:
    row = record(
        lab=chain,
        by=None,
        action="test.act",
        subject="a\x00b\ud800",
        details={"\x00": "\udfff"},
        now=T0,
    )
    assert row.subject == "a\ufffdb\ufffd"
    assert verify(chain) is None


@given(
    st.dictionaries(
        st.text(),
        st.integers() | st.text() | st.none() | st.booleans() | st.lists(st.integers()),
        max_size=5,
    )
)
def test_the_digest_survives_json(details: dict[str, Any]) -> None:
    """What the database gives back (keys in another order) has the digest of what went in."""
    back = json.loads(json.dumps(dict(sorted(details.items(), reverse=True))))
    assert entry_digest({"details": details}) == entry_digest({"details": back})


def _told(*arguments: str) -> str:
    out = StringIO()
    call_command("verify_audit", *arguments, stdout=out)
    return out.getvalue()


def test_the_command(chain: Lab) -> None:
    other = small_lab(name="Other Lab").lab
    chain.refresh_from_db()
    told = _told()
    assert (
        f"{chain.slug}: {chain.audit_sequence} entries, all valid. "
        f"{chain.audit_sequence}:{chain.audit_digest}" in told
    )
    assert f"{other.slug}: " in told
    assert other.slug not in _told("--lab", chain.slug)
    noted = f"{chain.audit_sequence}:{chain.audit_digest}"
    assert "all valid" in _told("--lab", chain.slug, "--expect", noted)
    _sql(f"UPDATE {TABLE} SET actor = 'm' WHERE lab_id = %s AND sequence = 5", chain.pk)
    out = StringIO()
    with pytest.raises(CommandError, match="is not valid"):
        call_command("verify_audit", stdout=out)
    assert f"{chain.slug}: entry 5 was edited" in out.getvalue()
    assert (
        f"{other.slug}: {AuditEntry.objects.filter(lab=other).count()} entries, all valid"
        in out.getvalue()
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--lab", "nowhere"], "No lab 'nowhere'. Labs: cell-lab"),
        (["--expect", "1:" + "a" * 64], "--expect requires --lab"),
        (["--lab", "cell-lab", "--expect", "newest"], "NUMBER:DIGEST"),
        (["mend"], "unrecognized arguments"),
    ],
)
def test_the_command_tells_mistakes(chain: Lab, arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        _told(*arguments)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_writers_at_once_keep_one_chain() -> None:
    lab = small_lab().lab
    errors: list[Exception] = []

    def write(number: int) -> None:
        try:
            for i in range(10):
                create_project(lab=lab, slug=f"p-{number}-{i}", name="P", now=T0)
        except Exception as error:  # noqa: BLE001  # a thread's failure is the test's
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert AuditEntry.objects.filter(lab=lab, action="project.made").count() == 81
    assert verify(lab) is None
