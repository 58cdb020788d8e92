"""A new installation is made by squashed migrations; it is what the steps of an upgraded one lead to."""

from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState


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
