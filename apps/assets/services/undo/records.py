"""The rows that an undo depends on, read in batches."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.assets import lifecycle
from apps.assets.choices import OPENING, ChangeKind
from apps.assets.models import Asset, AssetMeter, LifecycleEvent, RegisterChange, StoredVolume
from apps.fleet.models import ACTIVE

T = TypeVar("T")
BATCH = 500


class EventKey(NamedTuple):
    """What a plan needs of an event. ``parent_removed_us``: when its machine was removed."""

    pk: int
    asset_id: int
    kind: str
    hour: int
    reverses_id: int | None
    parent_id: int | None
    parent_name: str | None
    parent_removed_us: int | None

    @classmethod
    def of_reversal(cls, event: LifecycleEvent) -> "EventKey":
        return cls(
            event.pk, event.asset_id, event.kind, event.hour, event.reverses_id, None, None, None
        )


class AssetKey(NamedTuple):
    """What a plan needs of a part, or of another asset with the same tag or serial number."""

    pk: int
    name: str
    parent_id: int | None
    tag: str
    serial: str


_EVENT_COLUMNS = (
    "pk", "asset_id", "kind", "hour", "reverses_id",
    "parent_id", "parent__name", "parent__removed_us",
)  # fmt: skip


@dataclass
class Records:
    """The rows of the assets of a plan."""

    lab: Lab
    assets: dict[int, Asset]
    events: dict[int, dict[int, EventKey]]
    reversed_by: dict[int, int] = field(default_factory=dict)
    meters: dict[int, list[AssetMeter]] = field(default_factory=lambda: defaultdict(list))
    volumes: set[int] = field(default_factory=set)
    children: dict[int, list[AssetKey]] = field(default_factory=lambda: defaultdict(list))
    tags: dict[str, AssetKey] = field(default_factory=dict)
    serials: dict[str, AssetKey] = field(default_factory=dict)
    import_of_event: dict[int, str] = field(default_factory=dict)

    def active(self, asset_id: int) -> list[EventKey]:
        """Return the active events of an asset in order of time."""
        events = self.events[asset_id].values()
        active = [e for e in events if e.reverses_id is None and self.is_active(e.pk)]
        return sorted(active, key=lambda event: (event.hour, event.kind not in OPENING, event.pk))

    def tail(self, event_id: int) -> int:
        """Return the last event in the chain of reversals of an event."""
        return lifecycle.last_of_chain(event_id, self.reversed_by)

    def is_active(self, event_id: int) -> bool:
        return lifecycle.is_active(event_id, self.reversed_by)

    def add(self, event: EventKey) -> None:
        self.events[event.asset_id][event.pk] = event
        if event.reverses_id is not None:
            self.reversed_by[event.reverses_id] = event.pk


def load_records(lab: Lab, changes: Sequence[RegisterChange], *, is_redo: bool) -> Records:
    """Return the rows of the assets of ``changes``. Only a redo needs those of the same tag."""
    ids = list(dict.fromkeys(change.asset_id for change in changes))
    records = Records(lab, {}, {pk: {} for pk in ids})
    for part in batches(ids):
        records.assets.update(Asset.with_removed.in_bulk(part))
        events = LifecycleEvent.objects.filter(asset_id__in=part).order_by("pk")
        for values in events.values_list(*_EVENT_COLUMNS):
            records.add(EventKey(*values))
        for meter in AssetMeter.objects.filter(asset_id__in=part):
            records.meters[meter.asset_id].append(meter)
        volumes = StoredVolume.objects.filter(ACTIVE, asset_id__in=part)
        records.volumes.update(volumes.values_list("asset_id", flat=True))
        later = RegisterChange.objects.filter(
            asset_id__in=part, kind=ChangeKind.CHANGED, undone_us=None
        )
        for pks, name in later.values_list("events", "register_import__file_name"):
            records.import_of_event.update(dict.fromkeys(pks, name))
        for child in _keys(Asset.objects.filter(parent_id__in=part)):
            records.children[child.parent_id or 0].append(child)
    if is_redo:
        _load_namesakes(records)
    return records


def _load_namesakes(records: Records) -> None:
    for name, owners in (("tag", records.tags), ("serial", records.serials)):
        texts = {getattr(asset, name) for asset in records.assets.values()} - {""}
        for part in batches(sorted(texts)):
            for key in _keys(Asset.objects.filter(lab=records.lab, **{f"{name}__in": part})):
                owners[getattr(key, name)] = key


def _keys(assets: QuerySet[Asset]) -> Iterator[AssetKey]:
    return (AssetKey(*row) for row in assets.order_by("pk").values_list(*AssetKey._fields))


def active_rows(records: Records, asset_ids: Collection[int]) -> dict[int, list[LifecycleEvent]]:
    """Return the active events of assets in order, as rows."""
    keys = {pk: records.active(pk) for pk in asset_ids}
    wanted = [event.pk for events in keys.values() for event in events]
    rows: dict[int, LifecycleEvent] = {}
    for part in batches(wanted):
        rows.update(LifecycleEvent.objects.in_bulk(part))
    return {pk: [rows[event.pk] for event in events] for pk, events in keys.items()}


def batches(values: Iterable[T]) -> Iterator[list[T]]:
    listed = list(values)
    yield from (listed[start : start + BATCH] for start in range(0, len(listed), BATCH))
