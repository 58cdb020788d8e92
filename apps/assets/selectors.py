"""Reads of assets: filtered register, lifecycle events, possible meters. Sums: balances.py."""

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from apps.accounts.models import Lab
from apps.accounts.selectors import require_project
from apps.assets.balances import Book, Books, Sums, accounts_of, books_of, charged_by, through
from apps.assets.choices import AssetState
from apps.assets.models import Asset, AssetMeter, LifecycleEvent, StoredVolume
from apps.catalog.choices import FigureMethod, HardwareKind
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable, parse_record_number
from apps.fleet.choices import DeviceKind, SiteKind
from apps.fleet.models import ACTIVE, Device, Node

__all__ = [
    "Book", "Books", "Filters", "Sums", "accounts_of", "asset_of", "assets_of", "books_of",
    "charged_by", "entries_of", "free_meters", "matching", "meters_of", "through", "volumes_of",
]  # fmt: skip

LAB_ITSELF = "~lab"  # the lab as owner in URLs, never a project slug
NOWHERE = "~none"


IS_DEFAULT = Q(figure__method=FigureMethod.CATEGORY, embodied_total_ug__isnull=False)
# Where the embodied carbon of an asset comes from.
FIGURES = {
    "default": IS_DEFAULT,
    "model": Q(figure__isnull=False, embodied_total_ug__isnull=False)
    & ~Q(figure__method=FigureMethod.CATEGORY),
    "stated": Q(figure__isnull=True, embodied_total_ug__isnull=False),
    "unknown": Q(embodied_total_ug__isnull=True),
}


@dataclass(frozen=True)
class Filters:
    """Filters of the list of assets. '' is no filter.

    ``owner`` is a project slug or LAB_ITSELF, ``site`` a number or NOWHERE, ``figure`` a key of
    FIGURES, ``text`` a part of a name, serial, inventory number or model.
    """

    kind: str = ""
    state: str = ""
    owner: str = ""
    site: str = ""
    figure: str = ""
    text: str = ""


def assets_of(lab: Lab) -> QuerySet[Asset]:
    """Return the lab's assets."""
    return Asset.objects.filter(lab=lab)


def asset_of(lab: Lab, pk: int) -> Asset | None:
    """Return the lab's asset ``pk`` with its related records, or None."""
    return (
        assets_of(lab)
        .select_related("lab", "model", "parent", "site", "owner", "borrower")
        .filter(pk=pk)
        .first()
    )


def matching(lab: Lab, filters: Filters) -> QuerySet[Asset]:
    """Return the assets that match ``filters``. Raises InvalidInput for an invalid filter."""
    for name, known in (
        ("kind", HardwareKind.values),
        ("state", AssetState.values),
        ("figure", list(FIGURES)),
    ):
        value = getattr(filters, name)
        if value and value not in known:
            raise InvalidInput(
                f"{value[:40]!r} is not a {name}.",
                field=name,
                hint=f"Use one of {', '.join(known)}.",
            )
    if is_unstorable(filters.text + filters.owner):
        raise InvalidInput("Invalid character in filter.", field="text", hint="Remove it.")
    assets = assets_of(lab)
    if filters.kind:
        assets = assets.filter(kind=filters.kind)
    if filters.state:
        assets = assets.filter(state=filters.state)
    if filters.figure:
        assets = assets.filter(FIGURES[filters.figure])
    if filters.owner:
        assets = (
            assets.filter(owner=None)
            if filters.owner == LAB_ITSELF
            else assets.filter(owner__slug=filters.owner)
        )
        if filters.owner != LAB_ITSELF:
            require_project(lab, filters.owner, "owner")
    if filters.site:
        assets = assets.filter(_at(lab, filters.site))
    for word in filters.text.split():
        text_filter = Q(name__icontains=word) | Q(serial__icontains=word) | Q(tag__icontains=word)
        assets = assets.filter(text_filter | Q(model__name__icontains=word))
    return assets


def _at(lab: Lab, site: str) -> Q:
    if site == NOWHERE:
        return Q(site=None)
    number = parse_record_number(site)
    if number is None or not lab.sites.filter(pk=number).exists():
        raise InvalidInput(
            f"{site[:40]!r} is not a site.", field="site", hint="Choose one of the list."
        )
    return Q(site_id=number)


def entries_of(asset: Asset) -> list[LifecycleEvent]:
    """Return all events of an asset in order of time, including reversed events and reversals."""
    events = LifecycleEvent.objects.filter(asset=asset).select_related(
        "project", "parent", "site", "figure__model", "recorded_by", "reverses", "reversed_by"
    )
    return list(events.order_by("hour", "pk"))


def meters_of(asset: Asset) -> list[AssetMeter]:
    """Return the meters of an asset, oldest first."""
    return list(
        AssetMeter.objects.filter(ACTIVE, asset=asset)
        .select_related("device", "node")
        .order_by("from_hour")
    )


def volumes_of(asset: Asset) -> list[StoredVolume]:
    """Return the volumes that projects store on an asset, oldest first."""
    volumes = StoredVolume.objects.filter(ACTIVE, asset=asset).select_related(
        "project", "recorded_by"
    )
    return list(volumes.order_by("from_hour", "pk"))


def free_meters(lab: Lab, asset: Asset | None = None) -> tuple[list[Device], list[Node]]:
    """Return the devices and nodes that collectors discovered and that are not the meter of
    another asset.
    """
    others = AssetMeter.objects.filter(ACTIVE, asset__lab=lab).exclude(
        asset__state=AssetState.DISPOSED
    )
    last = {}
    for meter in others.order_by("from_hour", "pk"):
        last[meter.asset_id] = meter
    occupied = [meter for asset_id, meter in last.items() if asset is None or asset_id != asset.pk]
    device_kinds = (DeviceKind.GPU, DeviceKind.CPU, DeviceKind.DRAM, DeviceKind.STORAGE)
    devices = Device.objects.filter(lab=lab, kind__in=device_kinds).select_related("node")
    nodes = (
        Node.objects.filter(lab=lab).exclude(placements__site__kind=SiteKind.DECLARED).distinct()
    )
    return (
        list(
            devices.exclude(
                pk__in=[meter.device_id for meter in occupied if meter.device_id]
            ).order_by("name", "key")
        ),
        list(
            nodes.exclude(pk__in=[meter.node_id for meter in occupied if meter.node_id]).order_by(
                "hostname", "pk"
            )
        ),
    )
