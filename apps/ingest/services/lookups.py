"""Ids of devices, epochs and consumers by key. Missing rows are created."""

from typing import Any

from apps.core.erasure.names import erased_names
from apps.fleet.dated_facts import device_kind
from apps.fleet.models import Device, Node
from apps.ingest import selectors
from apps.ingest.models import Consumer, Epoch
from apps.ingest.window_rules import consumer_kind, run_of


def get_or_create_devices(
    node: Node, keys: list[str], facts: dict[str, dict[str, Any]]
) -> dict[str, Device]:
    """Return the devices of a batch by key, created if new. Packages of other nodes are left out.

    A device that belongs to another node is returned unchanged: naming it moves nothing.
    """
    kinds = {key: kind for key in dict.fromkeys(keys) if (kind := device_kind(key, str(node.uuid)))}
    named = Device.objects.filter(lab_id=node.lab_id, key__in=kinds)
    devices = {device.key: device for device in named}
    missing = [
        Device(lab_id=node.lab_id, key=key, kind=kind, node=node)
        for key, kind in kinds.items()
        if key not in devices
    ]
    if missing:
        Device.objects.bulk_create(missing, ignore_conflicts=True)
        devices = {device.key: device for device in named.all()}
    for key, device in devices.items():
        if device.node_id != node.pk:
            continue
        device_facts = facts.get(key, {})
        name = str(device_facts.get("name", ""))[:200] or device.name
        rest = {
            str(k)[:64]: str(v)[:256] for k, v in list(device_facts.items())[:32] if k != "name"
        } or device.facts
        if (device.name, device.facts) != (name, rest):
            device.name, device.facts = name, rest
            device.save(update_fields=["name", "facts"])
    return devices


def epoch_ids(keys: set[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Return the ids of (device id, epoch key)s. Missing rows are created."""

    def read() -> dict[tuple[int, str], int]:
        return selectors.epoch_ids({device for device, _ in keys}, {key for _, key in keys})

    ids = read()
    missing = sorted(keys - ids.keys())
    if missing:
        Epoch.objects.bulk_create(
            [Epoch(device_id=device, key=key) for device, key in missing], ignore_conflicts=True
        )
        ids = read()
    return ids


def consumer_ids(lab_id: int, keys: set[str]) -> dict[str, int]:
    """Return the ids of consumer keys. Missing rows are created, without erased names."""

    ids = selectors.consumer_ids(lab_id, keys)
    missing = sorted(keys - ids.keys())
    if missing and (names := erased_names(lab_id)):
        neutral = {key: names.text(key) for key in missing}
        if erased := {key: text for key, text in neutral.items() if text != key}:
            others = consumer_ids(lab_id, (keys - erased.keys()) | set(erased.values()))
            return {key: others[erased.get(key, key)] for key in keys}
    if missing:
        Consumer.objects.bulk_create(
            [
                Consumer(
                    lab_id=lab_id,
                    key=key,
                    kind=consumer_kind(key) or "unknown",
                    run_uuid=run_of(key),
                )
                for key in missing
            ],
            ignore_conflicts=True,
        )
        ids = selectors.consumer_ids(lab_id, keys)
    return ids
