"""Attachments of assets: add, read and delete. The bytes are files, their descriptions are rows."""

from datetime import timedelta
from hashlib import sha256
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.assets import attachment_files
from apps.assets.choices import MediaType
from apps.assets.models import Asset, Attachment
from apps.assets.services.events import note_act
from apps.core.errors import Conflict, NotFound, TooLarge
from apps.core.jobs import enqueue
from apps.core.units import US_PER_S

ERASE = "assets.erase_attachments"
MB = 1_000_000
MAX_PER_ASSET = 50
ORPHAN_AGE_S = timedelta(days=1).total_seconds()


def attach(
    *, asset: Asset, file_name: str, content: bytes, by: User | None, now: int
) -> Attachment:
    """Store a file with an asset. Raises InvalidInput, TooLarge, Conflict, StorageProblem."""
    media_type = attachment_files.recognise(content)
    uuid = uuid4()
    name = attachment_files.file_of(uuid, content)
    _check_room(asset, len(content))  # before the file is written
    attachment_files.write_file(settings.ATTACHMENTS_DIR, name, content)
    try:
        return _record(asset, uuid, name, file_name, media_type, content, by, now)
    except BaseException:
        attachment_files.delete_file(settings.ATTACHMENTS_DIR, name)
        raise


@transaction.atomic
def _record(
    asset: Asset,
    uuid: UUID,
    name: str,
    file_name: str,
    media_type: MediaType,
    content: bytes,
    by: User | None,
    now: int,
) -> Attachment:
    audit.hold(asset.lab)  # two uploads cannot fill the same room
    _check_room(asset, len(content))
    row = Attachment.objects.create(
        asset=asset,
        uuid=uuid,
        file=name,
        name=attachment_files.download_name(file_name, media_type),
        media_type=media_type,
        bytes=len(content),
        sha256=sha256(content).hexdigest(),
        added_us=now,
        added_by=by,
    )
    # Without the name of the file: it may name a person, and the audit log is never changed.
    note_act(
        asset,
        by,
        Act.ATTACHMENT_ADDED,
        {"attachment": str(uuid), "type": str(media_type), "bytes": len(content)},
        now,
    )
    return row


def _check_room(asset: Asset, size: int) -> None:
    rows = Attachment.objects.filter(deleted_us=None)
    if rows.filter(asset=asset).count() >= MAX_PER_ASSET:
        raise Conflict(
            f"An asset has at most {MAX_PER_ASSET} attachments.",
            field="file",
            hint="Delete one that is not needed.",
        )
    used = used_bytes(asset.lab)
    if used + size > settings.ATTACHMENTS_QUOTA_BYTES:
        raise TooLarge(
            f"The attachments of this lab use {used / MB:.1f} of "
            f"{settings.ATTACHMENTS_QUOTA_BYTES // MB} MB. The file has {size / MB:.1f} MB.",
            field="file",
            hint=(
                "Delete attachments that are not needed. The administrator of the server can "
                "raise LABCARBON_ATTACHMENTS_MB."
            ),
            code="quota_exceeded",
        )


def used_bytes(lab: Lab) -> int:
    """Return the bytes of all attachments of a lab."""
    rows = Attachment.objects.filter(asset__lab=lab, deleted_us=None)
    return int(rows.aggregate(total=Sum("bytes"))["total"] or 0)


def attachments_of(asset: Asset) -> list[Attachment]:
    """Return the attachments of an asset, the newest first."""
    rows = asset.attachments.filter(deleted_us=None).select_related("added_by")
    return list(rows.order_by("-added_us", "-pk"))


def attachment_of(asset: Asset, uuid: UUID) -> Attachment:
    """Return an attachment of the asset. Raises NotFound."""
    row = asset.attachments.filter(uuid=uuid, deleted_us=None).first()
    if row is None:
        raise NotFound("No such attachment of this asset.", hint="It may have been deleted.")
    return row


def content_of(attachment: Attachment) -> bytes:
    """Return the bytes of an attachment. Raises StorageProblem."""
    return attachment_files.read_file(settings.ATTACHMENTS_DIR, attachment.file, attachment.sha256)


@transaction.atomic
def delete_attachment(*, attachment: Attachment, by: User | None, now: int) -> None:
    """Delete an attachment. A job erases its bytes and retries until that succeeds.

    The row stays without the name, so that a backup erases its copy too.
    """
    Attachment.objects.filter(pk=attachment.pk, deleted_us=None).update(
        deleted_us=now, name="", sha256="", added_by=None
    )
    note_act(
        attachment.asset, by, Act.ATTACHMENT_DELETED, {"attachment": str(attachment.uuid)}, now
    )
    enqueue(kind=ERASE, key="")


def erase_deleted(now: int) -> int:
    """Erase the bytes of deleted attachments. Return their number."""
    rows = list(Attachment.objects.filter(deleted_us__isnull=False, erased_us=None))
    for row in rows:
        attachment_files.delete_file(settings.ATTACHMENTS_DIR, row.file)
        Attachment.objects.filter(pk=row.pk).update(erased_us=now)
    return len(rows)


def remove_orphans(now: int) -> int:
    """Delete files without a row, which an interrupted upload or a deleted asset left. Return
    their number.
    """
    folder = settings.ATTACHMENTS_DIR
    names = attachment_files.stored_files(folder, now / US_PER_S - ORPHAN_AGE_S)
    known = set(Attachment.objects.filter(deleted_us=None).values_list("file", flat=True))
    orphans = [name for name in names if name not in known]
    for name in orphans:
        attachment_files.delete_file(folder, name)
    return len(orphans)
