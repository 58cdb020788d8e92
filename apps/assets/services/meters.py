"""Meters of assets: a device, a node, or the volume that projects store."""

from django.db import transaction
from django.db.models import Model

from apps.accounts.choices import Act
from apps.accounts.models import Project, User
from apps.assets.models import Asset, AssetMeter, StoredVolume
from apps.assets.services.charges import recharge
from apps.assets.services.events import locked_asset, note_act
from apps.core.errors import InvalidInput
from apps.core.jobs import enqueue
from apps.fleet.models import ACTIVE, Device, Node
from apps.fleet.services.dated_facts import whole_hour


@transaction.atomic
def set_meter(
    *,
    asset: Asset,
    device: Device | None = None,
    node: Node | None = None,
    from_us: int,
    by: User | None,
    now: int,
) -> AssetMeter:
    """Set the meter of an asset from a whole UTC hour on: a device, the devices of a node, or
    none.
    """
    asset = locked_asset(asset)
    for place in (device, node):
        if place is not None and place.lab_id != asset.lab_id:
            raise InvalidInput(
                "No such meter in this lab.",
                field="meter",
                hint="Use a device or node of this lab.",
            )
    if device is not None and node is not None:
        raise InvalidInput(
            "An asset has one meter.", field="meter", hint="Choose a device or a node."
        )
    hour = whole_hour(from_us)
    AssetMeter.objects.filter(ACTIVE, asset=asset, from_hour=hour).update(
        withdrawn_us=now, withdrawn_by=by
    )
    row = AssetMeter.objects.create(
        asset=asset, device=device, node=node, from_hour=hour, recorded_us=now, recorded_by=by
    )
    meter: Model | None = device or node
    note_act(
        asset, by, Act.ASSET_METER, {"from_hour": hour, "meter": str(meter) if meter else ""}, now
    )
    enqueue(kind="assets.use_all", key=str(asset.lab_id))
    recharge(lab=asset.lab, asset_ids=[asset.pk])
    return row


@transaction.atomic
def store(
    *,
    asset: Asset,
    project: Project | None,
    gigabytes: int,
    from_us: int,
    by: User | None,
    now: int,
) -> StoredVolume:
    """Set the volume that a project stores on an asset from a whole UTC hour on. Replaces its
    value of that hour.
    """
    asset = locked_asset(asset)
    if project is not None and project.lab_id != asset.lab_id:
        raise InvalidInput("No such project in this lab.", field="project")
    if not 0 <= gigabytes <= 10**12:
        raise InvalidInput(
            "This volume is out of range.", field="gigabytes", hint="Use gigabytes, 0 or more."
        )
    hour = whole_hour(from_us)
    same = StoredVolume.objects.filter(ACTIVE, asset=asset, project=project, from_hour=hour)
    same.update(withdrawn_us=now, withdrawn_by=by)
    row = StoredVolume.objects.create(
        asset=asset,
        project=project,
        gigabytes=gigabytes,
        from_hour=hour,
        recorded_us=now,
        recorded_by=by,
    )
    details = {
        "project": project.slug if project else "",
        "gigabytes": gigabytes,
        "from_hour": hour,
    }
    note_act(asset, by, Act.ASSET_VOLUME, details, now)
    recharge(lab=asset.lab, asset_ids=[asset.pk])
    return row
