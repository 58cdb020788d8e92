"""Uploaded documents that prove a figure: of embodied figures and of instruments."""

from typing import Any

from apps.catalog.services.custom_models import MOST_EVIDENCE_BYTES, Document
from apps.core.errors import TooLarge


def read_document(file: Any, field: str = "evidence") -> Document | None:
    """Return the content of an uploaded document, None without one. Raises TooLarge before a large
    file is read. Its type is checked by the service that stores it.
    """
    if not file:
        return None
    if (file.size or 0) > MOST_EVIDENCE_BYTES:
        raise TooLarge(
            f"The document is larger than {MOST_EVIDENCE_BYTES >> 20} MiB.",
            field=field,
            hint="Upload a smaller one.",
        )
    return Document(name=file.name or "", content=file.read())
