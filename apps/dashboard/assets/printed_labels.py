"""Labels to print: name, inventory number, lab, and the address of the asset as text and QR
code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import reverse
from qrcode.constants import ERROR_CORRECT_M
from qrcode.main import QRCode

from apps.accounts.models import Lab
from apps.assets.choices import AssetState
from apps.assets.models import Asset
from apps.catalog.choices import HardwareKind
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number

MAX_LABELS = 200
QUIET = 4  # modules of white around a code, required by ISO/IEC 18004


@dataclass(frozen=True)
class Label:
    """One label. ``path`` draws the dark modules of its code, ``side`` is its width in modules,
    quiet zone included.
    """

    name: str
    tag: str
    serial: str
    address: str
    path: str
    side: int


@dataclass(frozen=True)
class LabelsPage:
    """Labels to print. ``omitted``: number of selected assets that do not fit on this page."""

    labels: list[Label]
    omitted: int
    kinds: list[tuple[str, str]]
    states: list[tuple[str, str]]


def labels_page(*, lab: Lab, ids: Sequence[str], kind: str = "", state: str = "") -> LabelsPage:
    """Return labels of selected assets, or of a kind and state. Raises InvalidInput for an
    invalid selection.
    """
    for field, text, known in (
        ("kind", kind, HardwareKind.values),
        ("state", state, AssetState.values),
    ):
        if text and text not in known:
            raise InvalidInput(
                f"{text[:40]!r} is not a {field}.",
                field=field,
                hint=f"Use one of {', '.join(known)}.",
            )
    assets = Asset.objects.filter(lab=lab).order_by("name", "pk")
    if ids:
        numbers = [parse_record_number(text) for text in ids[:1000]]
        assets = assets.filter(pk__in=[number for number in numbers if number is not None])
        if assets.count() < len(set(numbers)):
            raise InvalidInput(
                "No such asset.", field="id", hint=f"Select assets at {reverse('assets')}."
            )
    if kind:
        assets = assets.filter(kind=kind)
    assets = assets.filter(state=state) if state else assets.exclude(state=AssetState.DISPOSED)
    labels = [_label(asset) for asset in assets[:MAX_LABELS]]
    return LabelsPage(
        labels,
        max(0, assets.count() - MAX_LABELS) if len(labels) == MAX_LABELS else 0,
        HardwareKind.choices,
        AssetState.choices,
    )


def _label(asset: Asset) -> Label:
    address = f"{settings.SITE_URL}{reverse('asset', args=[asset.pk])}"
    path, side = code(address)
    return Label(asset.name, asset.tag, asset.serial, address.partition("://")[2], path, side)


def code(text: str) -> tuple[str, int]:
    """Return a QR code (level M) as the path of an SVG, and its width in modules with its quiet
    zone.
    """
    qr_code: Any = QRCode(error_correction=ERROR_CORRECT_M, border=QUIET)
    qr_code.add_data(text)
    rows: list[list[bool]] = qr_code.get_matrix()
    return "".join(_runs(y, row) for y, row in enumerate(rows)), len(rows)


def _runs(y: int, row: Sequence[bool]) -> str:
    """Return the dark modules of a row as bars."""
    path, x = "", 0
    while x < len(row):
        end = x
        while end < len(row) and row[end]:
            end += 1
        if end > x:
            path += f"M{x} {y}h{end - x}v1H{x}z"
        x = max(end, x + 1)
    return path
