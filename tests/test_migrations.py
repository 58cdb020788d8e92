"""``0001_v1`` of each app: what it creates, and which databases ``migrate`` refuses."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.db.migrations import CreateModel
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState
from django.test import Client

from apps.core.management.commands.migrate import Command
from apps.core.migration_history import (
    FIRST,
    LAST_COMMIT_WITH_STEPS,
    explain_refusal,
    read_histories,
)
from apps.core.migration_operations import CreateModels, PostgresSQL

Row = tuple[str, str]
APPS = (
    "accounts", "artifacts", "assets", "attribution", "carbon", "catalog", "core", "energy",
    "fleet", "ingest", "preflight", "runs", "trackers",
)  # fmt: skip
# One step less in an app, and in the apps that need it. Squashed migrations are not recorded where
# a step is missing.
ONE_BEHIND = {
    "runs": ("0007_left_out_keys_side_by_side",),
    "fleet": ("0003_control_of_sites",),
    "artifacts": ("0006_archived_and_promoted",),
}


def _rows() -> set[Row]:
    return set(MigrationRecorder(connection).applied_migrations())


def _tables() -> set[str]:
    return set(connection.introspection.table_names())


def _delete(*names: str, app: str) -> None:
    MigrationRecorder.Migration.objects.filter(app=app, name__in=names).delete()


@pytest.fixture
def last(db: None) -> Iterator[set[Row]]:
    """The test's database as the last commit with steps left it: 0001_v1 is not recorded. Return
    the recorded rows.
    """
    MigrationRecorder.Migration.objects.filter(name=FIRST).delete()
    return _rows()


def _migrate_refused() -> str:
    """Run ``migrate``, which must refuse and change nothing; return its message."""
    rows, tables = _rows(), _tables()
    with pytest.raises(CommandError) as refused:
        call_command("migrate", verbosity=0)
    assert (_rows(), _tables()) == (rows, tables)
    message = str(refused.value)
    assert "Nothing was changed" in message
    assert f"git checkout {LAST_COMMIT_WITH_STEPS}" in message
    assert "docs/install.md" in message
    return message


def test_models_and_migrations_agree(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("makemigrations", check_changes=True, dry_run=True)
    assert "No changes detected" in capsys.readouterr().out


def test_v1_of_each_app_replaces_its_steps(db: None) -> None:
    disk = MigrationLoader(None).disk_migrations
    ours = {key: migration for key, migration in disk.items() if key[0] in APPS}
    assert {app for app, _ in ours} == set(APPS)
    firsts = {app: migration for (app, name), migration in ours.items() if name == FIRST}
    assert firsts.keys() == set(APPS)
    for app, migration in firsts.items():
        assert migration.replaces
        assert {label for label, _ in migration.replaces} == {app}
        assert migration.initial
    replaced = {row for migration in firsts.values() for row in migration.replaces}
    assert len(replaced) == 47
    assert not replaced & disk.keys()
    assert replaced | {(app, FIRST) for app in APPS} <= _rows()


def test_indexes_and_constraints_have_explicit_names(db: None) -> None:
    """A name that Django derives from a model or a field would change when that is renamed."""
    state: ProjectState = MigrationLoader(None).project_state()
    for (app, _), model in state.models.items():
        if app in APPS:
            named = [*model.options.get("indexes", []), *model.options.get("constraints", [])]
            assert not [each.name for each in named if not each.name or each.name.endswith("_idx")]
            assert not model.options.get("unique_together")


@pytest.mark.postgres
def test_postgresql_has_what_no_model_describes(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT floor_div(-7, 2), floor_div(7, 2)")
        assert cursor.fetchone() == (-4, 3)
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'p' AND conrelid = "
            "'runs_tierkey'::regclass"
        )
        assert cursor.fetchone() == ("runs_newtierkey_pkey",)


def test_a_database_at_the_last_step_is_accepted(last: set[Row]) -> None:
    tables = _tables()
    call_command("migrate", verbosity=0)
    assert _rows() == last | {(app, FIRST) for app in APPS}
    assert _tables() == tables


def test_steps_without_the_squashed_names_are_accepted(last: set[Row]) -> None:
    MigrationRecorder.Migration.objects.filter(
        app__in=APPS, name__startswith="0001_squashed"
    ).delete()
    assert len(_rows()) == len(last) - 8
    call_command("migrate", verbosity=0)
    assert _rows() == last | {(app, FIRST) for app in APPS}


def test_a_database_with_v1_recorded_is_up_to_date(last: set[Row]) -> None:
    loader = MigrationLoader(None)
    for app in APPS:
        _delete(*(name for _, name in loader.disk_migrations[app, FIRST].replaces), app=app)
    MigrationRecorder.Migration.objects.bulk_create(
        [MigrationRecorder.Migration(app=app, name=FIRST) for app in APPS]
    )
    call_command("migrate", verbosity=0)
    assert _rows() == last | {(app, FIRST) for app in APPS}
    assert explain_refusal(read_histories(connection)) == ""


def test_an_empty_database_is_accepted(last: set[Row]) -> None:
    MigrationRecorder.Migration.objects.all().delete()
    assert explain_refusal(read_histories(connection)) == ""


def test_an_interrupted_first_migration_is_accepted(last: set[Row]) -> None:
    MigrationRecorder.Migration.objects.filter(app__in=APPS).exclude(app="accounts").delete()
    assert explain_refusal(read_histories(connection)), "half applied, by steps"
    loader = MigrationLoader(None)
    command = Command()
    command.database, command.verbosity = "default", 0
    command.migration_progress_callback("apply_success", loader.disk_migrations["accounts", FIRST])
    assert ("accounts", FIRST) in _rows(), (
        "recorded when it is applied, not at the end of the command"
    )
    assert explain_refusal(read_histories(connection)) == ""


@pytest.mark.parametrize("app", ONE_BEHIND)
@pytest.mark.parametrize("squashed", [True, False])
def test_one_step_behind_is_refused(last: set[Row], app: str, squashed: bool) -> None:
    _delete(*ONE_BEHIND[app], app=app)
    if not squashed:
        MigrationRecorder.Migration.objects.filter(name__startswith="0001_squashed").delete()
    message = _migrate_refused()
    assert f"  {app}: {ONE_BEHIND[app][0]}\n" in message
    assert message.count(": 00") == 1


def test_an_incomplete_app_is_refused(last: set[Row]) -> None:
    _delete("0003_fingerprints", "0004_unknown_seeds", "0001_squashed_0007", app="runs")
    assert "  runs: 0003_fingerprints, 0004_unknown_seeds\n" in _migrate_refused()


def test_complete_apps_beside_empty_apps_are_refused(last: set[Row]) -> None:
    MigrationRecorder.Migration.objects.filter(app__in=["preflight", "trackers"]).delete()
    assert "  preflight: all migrations\n  trackers: all migrations\n" in _migrate_refused()


def test_an_incomplete_app_beside_empty_apps_is_refused(last: set[Row]) -> None:
    MigrationRecorder.Migration.objects.filter(app__in=APPS).exclude(app="core").delete()
    _delete("0002_floor_div", app="core")
    message = _migrate_refused()
    assert "  core: 0002_floor_div\n" in message
    assert "  runs: all migrations\n" in message


def test_files_of_replaced_migrations_are_refused(
    last: set[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_disk = MigrationLoader.load_disk

    def load_with_old_file(loader: MigrationLoader) -> None:
        load_disk(loader)
        loader.disk_migrations["runs", "0001_initial"] = loader.disk_migrations["runs", FIRST]

    monkeypatch.setattr(MigrationLoader, "load_disk", load_with_old_file)
    with pytest.raises(
        CommandError, match=r"still in the folders of these apps: runs\."
    ) as refused:
        call_command("migrate", verbosity=0)
    assert "Delete the old folder" in str(refused.value)
    assert _rows() == last


@pytest.mark.parametrize(
    "options", [{"plan": True}, {"check_unapplied": True}, {"fake": True}, {"app_label": "core"}]
)
def test_every_option_is_refused(last: set[Row], options: dict[str, Any]) -> None:
    _delete(*ONE_BEHIND["fleet"], app="fleet")
    with pytest.raises(CommandError, match="fleet: 0003_control_of_sites"):
        call_command("migrate", verbosity=0, **options)


def test_replaced_names_are_not_pruned(last: set[Row], capsys: pytest.CaptureFixture[str]) -> None:
    call_command("migrate", "core", prune=True)
    assert "Cannot use --prune" in capsys.readouterr().out
    assert last <= _rows()


@pytest.mark.parametrize("app", ONE_BEHIND)
def test_readyz_of_a_database_that_is_refused(last: set[Row], app: str) -> None:
    _delete(*ONE_BEHIND[app], app=app)
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert "manage.py migrate" in response.json()["message"]


def _model(name: str, **fields: Any) -> CreateModel:
    return CreateModel(
        name=name, fields=[("id", models.BigAutoField(primary_key=True)), *fields.items()]
    )


@pytest.mark.django_db(transaction=True)
def test_models_created_together_refer_to_each_other() -> None:
    key = models.ForeignKey("core.zz_first", on_delete=models.CASCADE)
    row = CreateModels([_model("zz_first"), _model("zz_second", first=key)])
    assert row.describe() == "Create models zz_first, zz_second"
    before, after = ProjectState(), ProjectState()
    assert not before.apps.get_models()
    assert after.apps  # rendered before the models are added
    row.state_forwards("core", after)
    with connection.schema_editor() as editor:
        row.database_forwards("core", editor, before, after)
    created = {"core_zz_first", "core_zz_second"}
    assert created <= set(connection.introspection.table_names())
    first, second = (after.apps.get_model("core", name) for name in ("zz_first", "zz_second"))
    second.objects.create(first=first.objects.create())
    assert second.objects.filter(first__id__gt=0).count() == 1
    with connection.schema_editor() as editor:
        row.database_backwards("core", editor, after, before)
    assert not created & set(connection.introspection.table_names())


@pytest.mark.django_db(transaction=True)
def test_sql_for_postgresql_runs_on_postgresql_only() -> None:
    operation = PostgresSQL("CREATE TABLE core_zz_only (id int)", "DROP TABLE core_zz_only")
    state = ProjectState()
    with connection.schema_editor() as editor:
        operation.database_forwards("core", editor, state, state)
    assert ("core_zz_only" in _tables()) is (connection.vendor == "postgresql")
    with connection.schema_editor() as editor:
        operation.database_backwards("core", editor, state, state)
    assert "core_zz_only" not in _tables()
