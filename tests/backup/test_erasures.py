"""Erase, restore a backup of before: the name does not return, and the audit log is valid."""

import json
from pathlib import Path

import pytest

from tests.backup.test_backup import Installation, pair  # noqa: F401 - a fixture

NAME = "zaphodb"
SETUP = f"""
from apps.accounts import audit
from apps.accounts.models import Lab, Membership, User
from apps.accounts.services.labs import create_lab
owner = User.objects.create_user("owner")
lab = create_lab(name="Cell Lab", time_zone="UTC", owner=owner, now=1)
person = User.objects.create_user("{NAME}", email="{NAME}@x.example")
Membership.objects.create(lab=lab, user=person, role="member")
audit.record(lab=lab, by=person, action="test.act", subject="{NAME}", now=2)
"""


def _dump(installation: Installation) -> str:
    tables = installation.rows(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        if installation.database_url
        else "SELECT name FROM sqlite_master WHERE type = 'table'"
    )
    return repr([installation.rows(f'SELECT * FROM "{table}"') for (table,) in tables])


@pytest.fixture
def backup(pair: list[Installation], tmp_path: Path) -> Path:  # noqa: F811
    """Back up a database with the name; then erase the person."""
    old, target = pair[0], tmp_path / "copy"
    for arguments in (
        ("shell", "--verbosity", "0", "--command", SETUP),
        ("backup", str(target)),
        ("erase_person", NAME, "--confirm"),
    ):
        result = old.manage(*arguments)
        assert result.returncode == 0, result.stderr
    assert NAME not in _dump(old)
    return target


def test_a_restored_backup_of_before_does_not_bring_the_name_back(
    pair: list[Installation],  # noqa: F811
    backup: Path,
) -> None:
    old, new = pair
    listed = old.folder / "erasures.jsonl"
    assert NAME not in listed.read_text()
    assert len([json.loads(line) for line in listed.read_text().splitlines()]) == 3
    restored = new.manage("restore", str(backup), "--erasures", str(listed))
    assert restored.returncode == 0, restored.stderr
    assert NAME not in _dump(new)
    verified = new.manage("verify_audit")
    assert verified.returncode == 0, verified.stdout
    assert "all valid" in verified.stdout
    assert (new.folder / "erasures.jsonl").read_text() == listed.read_text()


def test_a_database_copied_by_other_means_is_erased_by_migrate(
    pair: list[Installation],  # noqa: F811
    backup: Path,
) -> None:
    old, new = pair
    restored = new.manage("restore", str(backup))
    assert restored.returncode == 0, restored.stderr
    assert "No list of erasures" in restored.stdout
    assert NAME in _dump(new)
    (new.folder / "erasures.jsonl").write_bytes((old.folder / "erasures.jsonl").read_bytes())
    migrated = new.manage("migrate")
    assert migrated.returncode == 0, migrated.stderr
    assert NAME not in _dump(new)
    assert new.manage("verify_audit").returncode == 0
