"""Contents of the pages of asset sources."""

from dataclasses import dataclass, field

from django.conf import settings

from apps.accounts.models import Lab
from apps.assets.choices import ImportState
from apps.pollers.differences import Difference, differences
from apps.pollers.models import AssetSource, PolledRow
from apps.pollers.selectors import rows_of, sources_of

MAX_LISTED = 100
CELL_LABELS = {
    "name": "Name",
    "status": "Status",
    "site": "Site",
    "location": "Location",
    "manufacturer": "Manufacturer",
    "model": "Model",
    "serial": "Serial number",
    "tag": "Inventory number",
    "category": "Category",
    "parent": "Part of machine",
    "note": "Note",
    "bought_on": "Purchase date",
    "price": "Price",
    "supplier": "Supplier",
    "warranty_months": "Warranty",
    "order_number": "Order number",
}


@dataclass(frozen=True)
class SourceRow:
    """A source in the list. ``state``: CSS class of the badge."""

    source: AssetSource
    state: str
    state_label: str

    @property
    def is_untried(self) -> bool:
        """Whether the real server has never returned a usable list."""
        return self.source.succeeded_us is None


@dataclass(frozen=True)
class CellChange:
    """A changed cell. ``is_fact``: whether it can be applied here."""

    label: str
    before: str
    after: str
    is_fact: bool


@dataclass(frozen=True)
class ChangedRow:
    """A row that changed in the source."""

    row: PolledRow
    changes: list[CellChange]


@dataclass
class RowGroup:
    """Rows of one kind: the first ones, and the number of all."""

    rows: list[PolledRow] = field(default_factory=list)
    count: int = 0

    def add(self, row: PolledRow) -> None:
        self.count += 1
        if len(self.rows) < MAX_LISTED:
            self.rows.append(row)

    @property
    def more(self) -> int:
        """Return the number of rows that are not listed."""
        return self.count - len(self.rows)


@dataclass
class SourcePage:
    """One source with the rows of its last list. ``review``: the proposed import, if it waits."""

    listed: SourceRow
    linked: int = 0
    total: int = 0
    review: str = ""
    new: RowGroup = field(default_factory=RowGroup)
    changed: RowGroup = field(default_factory=RowGroup)
    changes: list[ChangedRow] = field(default_factory=list)
    vanished: RowGroup = field(default_factory=RowGroup)
    troubled: RowGroup = field(default_factory=RowGroup)
    ignored: RowGroup = field(default_factory=RowGroup)


def source_rows(lab: Lab) -> list[SourceRow]:
    """Return the sources of a lab. One query."""
    return [source_row(source) for source in sources_of(lab)]


def source_row(source: AssetSource) -> SourceRow:
    """Return a source with its state."""
    state, label = "running", "polled every hour"
    if not source.enabled:
        state, label = "killed", "disabled"
    elif source.halted_us is not None:
        state, label = "failed", "stopped: rows are missing"
    elif source.problem:
        state, label = "failed", "not usable"
    elif source.succeeded_us is None:
        state, label = "running", "not polled yet"
    return SourceRow(source, state, label)


def source_page(source: AssetSource) -> SourcePage:
    """Return one source. One query."""
    page = SourcePage(source_row(source))
    pending = source.pending_import
    if pending is not None and pending.state == ImportState.READ:
        page.review = str(pending.uuid)
    for row in rows_of(source):
        _sort_in(page, row)
    page.changes = [
        ChangedRow(row, [_change(each) for each in differences(row.accepted, row.cells)])
        for row in page.changed.rows
    ]
    return page


def _sort_in(page: SourcePage, row: PolledRow) -> None:
    page.total += row.vanished_us is None
    page.linked += row.asset is not None and row.vanished_us is None
    if row.vanished_us is not None:
        page.vanished.add(row)
    elif row.asset is not None:
        if row.accepted != row.cells:
            page.changed.add(row)
    elif row.ignored:
        page.ignored.add(row)
    elif row.problem:
        page.troubled.add(row)
    else:
        page.new.add(row)


def _change(difference: Difference) -> CellChange:
    return CellChange(
        CELL_LABELS.get(difference.cell, difference.cell),
        difference.before,
        difference.after,
        difference.is_fact,
    )


def permitted_addresses() -> list[str]:
    """Return the addresses that the server's administrator lists."""
    return list(settings.ASSET_SOURCES)


def initial_values(source: AssetSource) -> dict[str, str]:
    """Return the values of a source for its form, without its tokens."""
    return {
        "system": source.system,
        "address": source.address,
        "name": source.name,
        "policy": source.policy,
        "bought_on": source.bought_on,
        "currency": source.currency,
    }
