"""Attachments on the page of an asset."""

from dataclasses import dataclass

from apps.assets.models import Asset, Attachment
from apps.assets.services.attachments import attachments_of
from apps.dashboard.formatting import size


@dataclass(frozen=True)
class AttachmentRow:
    """An attachment with the text of its size."""

    attachment: Attachment
    size: str


def attachment_rows(asset: Asset) -> list[AttachmentRow]:
    """Return the attachments of an asset, the newest first. One query."""
    return [AttachmentRow(row, size(row.bytes)) for row in attachments_of(asset)]
