"""Documents of instruments: those that can be attached to assets, up to 5 MiB, stored in the
database. Pure.
"""

from dataclasses import dataclass

from apps.assets.attachment_files import download_name, recognise
from apps.core.errors import InvalidInput, TooLarge

MOST_EVIDENCE_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True)
class CheckedFile:
    """A document with the name of its download, and its content type."""

    name: str
    content_type: str
    content: bytes


def check_file(name: str, content: bytes) -> CheckedFile:
    """Return a document that can be stored. Its type is that of its content. Raises TooLarge above
    5 MiB, and InvalidInput for anything that is no PDF, PNG or JPEG.
    """
    if len(content) > MOST_EVIDENCE_BYTES:
        raise TooLarge(
            f"The file has {len(content):,} bytes.",
            field="evidence",
            hint="At most 5 MiB (5,242,880 bytes).",
        )
    try:
        media_type = recognise(content)
    except InvalidInput as error:
        raise InvalidInput(error.message, field="evidence", hint=error.hint) from error
    return CheckedFile(download_name(name, media_type), media_type.value, content)
