"""Columns of the list of runs besides the name, in order."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TableColumn:
    """A column that can be shown or hidden. ``sort``: its sort order, '' for none.

    ``on_phone``: it stays on a narrow screen, where a second line of the name has the others.
    """

    name: str
    label: str
    sort: str = ""
    is_number: bool = False
    is_default: bool = False
    on_phone: bool = False


TABLE_COLUMNS = {
    column.name: column
    for column in (
        TableColumn("project", "Project", "project", is_default=True),
        TableColumn("state", "State", "state", is_default=True),
        TableColumn("user", "User", "user", is_default=True),
        TableColumn("node", "Node", "node", is_default=True),
        TableColumn("sweep", "Sweep", "sweep"),
        TableColumn("model", "Model", "model"),
        TableColumn("intent", "Intent", "intent"),
        TableColumn("tags", "Tags"),
        TableColumn("started", "Started", "started", is_number=True, is_default=True),
        TableColumn("ended", "Ended", "ended", is_number=True),
        TableColumn("duration", "Duration", "duration", is_number=True, is_default=True),
        TableColumn("energy", "Energy", "energy", is_number=True, is_default=True, on_phone=True),
        TableColumn(
            "emission", "Emissions", "emission", is_number=True, is_default=True, on_phone=True
        ),
        TableColumn("cost", "Cost", "cost", is_number=True),
    )
}
SHOWN_BY_DEFAULT = tuple(name for name, column in TABLE_COLUMNS.items() if column.is_default)
