"""A new installation is made by squashed migrations; it is what the steps of an upgraded one lead to."""

from typing import Any

import pytest
from django.db import connection, models
from django.db.migrations import CreateModel, RunSQL
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

from apps.core.migration_operations import CreateModels, together


def _models(*, squashed: bool) -> dict[tuple[str, str], ModelState]:
    loader = MigrationLoader(None, replace_migrations=squashed)
    ends = [key for key in loader.graph.leaf_nodes() if squashed or not loader.disk_migrations[key].replaces]
    assert any(loader.disk_migrations[key].replaces for key in ends) is squashed
    state: ProjectState = loader.project_state(ends)
    return state.models


def _told(model: ModelState) -> tuple[object, ...]:
    fields = {name: field.deconstruct()[1:] for name, field in model.fields.items()}
    kinds = ("indexes", "constraints")
    rest = {name: value for name, value in model.options.items() if name not in kinds and value}
    parts = {kind: sorted(str(each.deconstruct()) for each in model.options.get(kind, [])) for kind in kinds}
    return fields, rest, parts, model.bases


def test_both_ways_lead_to_the_same_models() -> None:
    by_steps, at_once = _models(squashed=False), _models(squashed=True)
    assert by_steps.keys() == at_once.keys()
    assert len(at_once) > 80
    for key, model in by_steps.items():
        assert _told(at_once[key]) == _told(model), key


def _model(name: str, **fields: Any) -> CreateModel:
    return CreateModel(name=name, fields=[("id", models.BigAutoField(primary_key=True)), *fields.items()])


def test_only_what_stands_in_a_row_is_made_at_once() -> None:
    first, second, third = _model("First"), _model("Second"), _model("Third")
    between = RunSQL("SELECT 1", RunSQL.noop)
    row, kept, alone = together([first, second, between, third])
    assert isinstance(row, CreateModels)
    assert row.describe() == "Create models First, Second"
    assert (kept, alone) == (between, third)


@pytest.mark.django_db(transaction=True)
def test_tables_made_at_once_refer_to_each_other_and_go_again() -> None:
    key = models.ForeignKey("core.zz_first", on_delete=models.CASCADE)
    row = CreateModels([_model("zz_first"), _model("zz_second", first=key)])
    before, after = ProjectState(), ProjectState()
    assert not before.apps.get_models()
    assert after.apps  # drawn up before they come
    row.state_forwards("core", after)
    with connection.schema_editor() as editor:
        row.database_forwards("core", editor, before, after)
    made = {"core_zz_first", "core_zz_second"}
    assert made <= set(connection.introspection.table_names())
    first, second = (after.apps.get_model("core", name) for name in ("zz_first", "zz_second"))
    second.objects.create(first=first.objects.create())
    assert second.objects.filter(first__id__gt=0).count() == 1
    with connection.schema_editor() as editor:
        row.database_backwards("core", editor, after, before)
    assert not made & set(connection.introspection.table_names())
