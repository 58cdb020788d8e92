"""The form of device keys. Pure."""

import re

from apps.fleet.choices import DeviceKind

_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FORMS = {
    DeviceKind.GPU: re.compile(r"gpu:[\w.\-/]{4,120}\Z", re.ASCII),
    DeviceKind.MIG: re.compile(r"mig:[\w.\-/]{4,120}\Z", re.ASCII),
    **{
        kind: re.compile(rf"{kind.value}:(?P<node>{_UUID})/[\w.\-]{{1,80}}\Z", re.ASCII)
        for kind in (DeviceKind.CPU, DeviceKind.DRAM, DeviceKind.METER, DeviceKind.STORAGE)
    },
}


def device_kind(key: str, node_uuid: str) -> DeviceKind | None:
    """Return the kind of a device key that ``node_uuid`` may push, or None: unknown form, or another node's device."""
    for kind, form in _FORMS.items():
        match = form.match(key)
        if match:
            owner = match.groupdict().get("node")
            return kind if owner is None or owner.lower() == node_uuid.lower() else None
    return None
