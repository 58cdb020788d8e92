"""Changes of registered assets by a file: preview of one line, and writing of all lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab, User
from apps.assets import lifecycle
from apps.assets.choices import OPENING, ChangeKind, EventKind
from apps.assets.lifecycle_summary import SUMMARY_FIELDS
from apps.assets.models import Asset, LifecycleEvent, RegisterChange, RegisterImport
from apps.assets.services.charges import as_event
from apps.assets.services.events import refresh
from apps.assets.services.register import check_tags
from apps.assets.services.register_values import (
    DATED,
    FACTS,
    OPENING_VALUES,
    Difference,
    Values,
    changed_fields,
    dated_entry,
    differences,
    values_of_asset,
    values_of_draft,
)
from apps.assets.services.validation import Draft, Facts, checked_entry, checked_facts, event_row
from apps.assets.treatment import default_emissions
from apps.core.database.bulk_writes import update_columns
from apps.core.errors import Conflict

BATCH = 500
_UNSAVED = 1 << 62  # ids of events that are not saved yet
DERIVED = ("state", "owner", "borrower", "parent", "site", *SUMMARY_FIELDS)
_EMBODIED_COLUMNS = (
    "total_ug",
    "low_ug",
    "high_ug",
    "manufacture_ug",
    "transport_ug",
    "end_of_life_ug",
    "includes_end_of_life",
    "figure_id",
    "source",
)
_EVENT_COLUMNS = (
    "asset_id",
    "kind",
    "hour",
    "life_hours",
    "life_end_hour",
    "amortisation",
    "project_id",
    "parent_id",
    "site_id",
    "counterpart",
    "evidence",
    "note",
    "end_of_life",
    "mass_g",
    *_EMBODIED_COLUMNS,
)
_DISPOSAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "disposed_on": ("hour",),
    "end_of_life": ("end_of_life",),
    "mass": ("mass_g",),
    "recipient": ("counterpart",),
    "end_of_life_emissions": _EMBODIED_COLUMNS,
}
_OPENING_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "bought_on": ("hour",),
    "second_hand": ("kind",),
    "leased": ("kind", "counterpart"),
    "lessor": ("counterpart",),
    "life_years": ("life_hours",),
    "amortisation": ("amortisation",),
    "owner": ("project_id",),
    "site": ("site_id",),
    "parent": ("parent_id",),
    "embodied": _EMBODIED_COLUMNS,
}


@dataclass(frozen=True)
class RegisterUpdate:
    """What a line changes of a registered asset. ``values``: all values of the line."""

    asset_id: int
    draft: Draft
    values: Values
    differences: tuple[Difference, ...]

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(difference.field for difference in self.differences)

    def with_value(self, name: str, value: str) -> "RegisterUpdate":
        return replace(self, values={**self.values, name: value})


def last_values(lab: Lab) -> dict[int, Values]:
    """Return the values of the last import of each asset."""
    changes = RegisterChange.objects.filter(
        lab=lab, undone_us=None, register_import__isnull=False
    ).order_by("pk")
    return dict(changes.values_list("asset_id", "values"))


@dataclass
class RegisteredAssets:
    """Registered assets with their active events. The first one that is needed reads all expected
    ones with it.
    """

    expected: Sequence[int] = ()
    _read: dict[int, tuple[Asset, list[LifecycleEvent]]] = field(default_factory=dict)

    def expect(self, asset_ids: Sequence[int]) -> None:
        """State which assets may be needed next. Former ones are dropped."""
        self.expected = asset_ids
        self._read.clear()

    def get(self, asset_id: int) -> tuple[Asset, list[LifecycleEvent]]:
        if asset_id not in self._read:
            assets = Asset.objects.select_related("lab", "model").in_bulk(
                {asset_id, *self.expected}
            )
            events = events_of(list(assets))
            self._read.update({pk: (asset, active_of(events[pk])) for pk, asset in assets.items()})
        return self._read[asset_id]


def events_of(asset_ids: Sequence[int]) -> dict[int, list[LifecycleEvent]]:
    """Return all events of each asset, reversed ones and reversals too."""
    rows: dict[int, list[LifecycleEvent]] = {pk: [] for pk in asset_ids}
    events = LifecycleEvent.objects.filter(asset_id__in=asset_ids)
    for row in events.select_related("project", "parent", "site").order_by("pk"):
        rows[row.asset_id].append(row)
    return rows


def active_of(rows: Sequence[LifecycleEvent]) -> list[LifecycleEvent]:
    """Return the active ones of all events of an asset, in order of time."""
    by_id = {row.pk: row for row in rows}
    return [by_id[event.id] for event in lifecycle.active_events([as_event(row) for row in rows])]


def compare(
    registered: RegisteredAssets,
    asset_id: int,
    draft: Draft,
    cells: Mapping[str, str],
    baseline: Values | None,
    now: int,
) -> RegisterUpdate:
    """Compare a line with its registered asset. Raises InvalidInput or Conflict if the change is
    impossible.
    """
    values = values_of_draft(draft, cells)
    fields = changed_fields(values, baseline, cells)
    if not fields:
        return RegisterUpdate(asset_id, draft, values, ())
    asset, events = registered.get(asset_id)
    current = values_of_asset(asset, events)
    zone = ZoneInfo(asset.lab.time_zone)
    found = differences(fields, values, current, _parent_of(events), zone)
    update = RegisterUpdate(asset_id, draft, values, tuple(found))
    if found:
        checked_facts(asset.lab, draft.facts)
        _new_events(asset, events, update, None, now)
    return update


def _parent_of(events: Sequence[LifecycleEvent]) -> Asset | None:
    return next(event for event in events if event.kind in OPENING).parent


def apply_updates(
    updates: Sequence[RegisterUpdate], *, row: RegisterImport, by: User | None, now: int
) -> list[RegisterChange]:
    """Change assets in the caller's transaction. The caller charges them again. Raises Conflict."""
    ids = [update.asset_id for update in updates]
    locked = Asset.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    list(locked.values_list("pk"))
    changes: list[RegisterChange] = []
    for start in range(0, len(updates), BATCH):
        changes += _applied(updates[start : start + BATCH], row, by, now)
    _check_not_inside_themselves(
        [update.asset_id for update in updates if "parent" in update.fields]
    )
    return changes


def _applied(
    updates: Sequence[RegisterUpdate], row: RegisterImport, by: User | None, now: int
) -> list[RegisterChange]:
    ids = [update.asset_id for update in updates]
    assets = Asset.objects.select_related("lab", "model").in_bulk(ids)
    events_by_asset = events_of(ids)
    new_rows: list[LifecycleEvent] = []
    changes = []
    for update in updates:
        asset, events = assets[update.asset_id], events_by_asset[update.asset_id]
        reversed_by = {event.reverses_id: event.pk for event in events if event.reverses_id}
        before, after = _change_facts(asset, update)
        reversed_events, new_events = _new_events(asset, active_of(events), update, by, now)
        own = [
            *(
                _reversal(event, lifecycle.last_of_chain(event.pk, reversed_by), by, now)
                for event in reversed_events
            ),
            *(event for event in new_events),
        ]
        new_rows += own
        change = RegisterChange(
            lab=asset.lab,
            register_import=row,
            asset=asset,
            kind=ChangeKind.CHANGED,
            before=before,
            after=after,
            values=update.values,
            differences=[difference.payload() for difference in update.differences],
            recorded_us=now,
        )
        changes.append((change, own))
    LifecycleEvent.objects.bulk_create(new_rows, batch_size=BATCH)
    for change, own in changes:
        change.events = [event.pk for event in own]
        refresh(change.asset, active_of([*events_by_asset[change.asset_id], *own]))
    columns = sorted({name for change, _ in changes for name in change.after})
    update_columns(list(assets.values()), [*DERIVED, *columns])
    return [change for change, _ in changes]


def _reversal(event: LifecycleEvent, last_id: int, by: User | None, now: int) -> LifecycleEvent:
    return LifecycleEvent(
        asset_id=event.asset_id,
        kind=EventKind.REVERSAL,
        hour=event.hour,
        reverses_id=last_id,
        recorded_us=now,
        recorded_by=by,
    )


def _check_not_inside_themselves(asset_ids: Sequence[int]) -> None:
    """Raise Conflict if an asset contains itself."""
    parents: dict[int, int | None] = {}
    for asset_id in asset_ids:
        seen, above = {asset_id}, asset_id
        while True:
            if above not in parents:
                row = Asset.objects.filter(pk=above).values_list("parent_id", flat=True)
                parents[above] = row.first()
            parent_id = parents[above]
            if parent_id is None:
                break
            if parent_id in seen:
                raise Conflict(
                    f"{Asset.objects.get(pk=asset_id).name} would be part of itself.",
                    field="parent",
                    hint="Correct the column parent.",
                )
            seen.add(parent_id)
            above = parent_id


def _change_facts(asset: Asset, update: RegisterUpdate) -> tuple[dict[str, Any], dict[str, Any]]:
    """Set the changed columns of an asset. Returns their former and new content."""
    names = [name for name in FACTS if name in update.fields]
    if "price" in update.fields:
        names += ["price_ucurrency", "currency"]
    facts = checked_facts(
        asset.lab,
        replace(
            Facts(**{name: getattr(asset, name) for name in Facts.__dataclass_fields__}),
            **{name: getattr(update.draft.facts, name) for name in names},
        ),
    )
    is_retagged = "tag" in names and facts.tag != asset.tag
    if is_retagged:
        check_tags(asset.lab, [Asset(tag=facts.tag)])
    before = stored_facts(asset, names)
    for name in names:
        setattr(asset, name, getattr(facts, name))
    if is_retagged:  # the next asset may get its former number
        asset.save(update_fields=["tag"])
    return before, stored_facts(asset, names)


def stored_facts(asset: Asset, names: Sequence[str]) -> dict[str, Any]:
    """Return columns of an asset as JSON."""
    columns = ["model_id" if name == "model" else name for name in names]
    content = {column: getattr(asset, column) for column in columns}
    if content.get("warranty_until"):
        content["warranty_until"] = content["warranty_until"].isoformat()
    return content


def _new_events(
    asset: Asset,
    events: Sequence[LifecycleEvent],
    update: RegisterUpdate,
    by: User | None,
    now: int,
) -> tuple[list[LifecycleEvent], list[LifecycleEvent]]:
    """Return the events to reverse and the events to record instead. Raises Conflict."""
    removed: list[LifecycleEvent] = []
    new: list[LifecycleEvent] = []
    opening = next(event for event in events if event.kind in OPENING)
    fields, draft = update.fields, update.draft
    if fields & set(OPENING_VALUES):
        entry = checked_entry(asset.lab, draft.opening, now)
        stated = event_row(asset, entry, by, now)
        row = _copied(opening, by, now)
        for field in fields & set(OPENING_VALUES):
            for column in _OPENING_COLUMNS[field]:
                setattr(row, column, getattr(stated, column))
        removed.append(opening)
        new.append(row)
    for field, kind in DATED.items():
        columns = _DISPOSAL_COLUMNS if kind == EventKind.DISPOSE else {field: ("hour",)}
        if not fields & set(columns):
            continue
        stated = event_row(asset, checked_entry(asset.lab, dated_entry(draft, kind), now), by, now)
        current = next((event for event in events if event.kind == kind), None)
        if current is not None:
            removed.append(current)
            copy = _copied(current, by, now)
            for name in fields & set(columns):
                for column in columns[name]:
                    setattr(copy, column, getattr(stated, column))
            if "end_of_life_emissions" not in fields and has_default_emissions(current):
                defaults = default_emissions(copy.end_of_life, copy.mass_g)
                copy.total_ug, copy.source = defaults
            stated = copy
        new.append(stated)
    if removed or new:
        gone = {event.pk for event in removed}
        history = [as_event(event) for event in events if event.pk not in gone]
        history += [
            (replace(as_event(event)[0], id=_UNSAVED + number), None)
            for number, event in enumerate(new)
        ]
        reason = lifecycle.wrong(lifecycle.active_events(history))
        if reason:
            raise Conflict(reason, hint="Correct the dates of this line.")
    return removed, new


def has_default_emissions(disposal: LifecycleEvent) -> bool:
    """Return whether nobody entered the emissions of an end of life."""
    defaults = default_emissions(disposal.end_of_life, disposal.mass_g)
    return disposal.total_ug is None or (disposal.total_ug, disposal.source) == defaults


def _copied(event: LifecycleEvent, by: User | None, now: int) -> LifecycleEvent:
    """Return an unsaved event with the content of another."""
    content = {name: getattr(event, name) for name in _EVENT_COLUMNS}
    return LifecycleEvent(**content, recorded_us=now, recorded_by=by)
