"""Migrations that make many tables at once."""

from collections.abc import Sequence

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import CreateModel
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class CreateModels(Operation):
    """Several CreateModel in one. Django draws up all models anew that are related to one that comes; here that is the
    whole lab, for each table. So it is done once for all of them."""

    def __init__(self, models: Sequence[CreateModel]) -> None:
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Note the models; those that were drawn up are forgotten, and drawn up when somebody asks."""
        state.__dict__.pop("apps", None)  # as Django's own ProjectState.clear_delayed_apps_cache
        for model in self.models:
            model.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Make the tables, in order."""
        for model in self.models:
            model.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Take the tables away, the last first."""
        for model in reversed(self.models):
            model.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        """What `migrate --plan` says."""
        return f"Create models {', '.join(model.name for model in self.models)}"


def together(operations: Sequence[Operation]) -> list[Operation]:
    """Return a migration's operations with each unbroken row of CreateModel as one."""
    found: list[Operation] = []
    row: list[CreateModel] = []
    for operation in operations:
        if isinstance(operation, CreateModel):
            row.append(operation)
            continue
        found += _joined(row)
        row = []
        found.append(operation)
    return found + _joined(row)


def _joined(row: list[CreateModel]) -> list[Operation]:
    return [CreateModels(row)] if len(row) > 1 else list(row)
