"""Documents of instruments: size, and content type as recognised from the content. Pure."""

from dataclasses import dataclass

from apps.core.errors import InvalidInput, TooLarge

MOST_EVIDENCE_BYTES = 5 * 1024 * 1024
_SIGNATURES = {
    b"%PDF-": "application/pdf",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
}
_EXTENSIONS = {
    "application/pdf": (".pdf",),
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "text/plain": (".csv", ".txt"),
}
_HINT = "Upload a PDF, a PNG or JPEG picture, or a CSV or text file."


@dataclass(frozen=True)
class CheckedFile:
    """A document with its name without folders, and its content type."""

    name: str
    content_type: str
    content: bytes


def check_file(name: str, content: bytes) -> CheckedFile:
    """Return a document that can be stored. Raises TooLarge above 5 MiB, and InvalidInput if it is
    empty, of another type, or if its name has the extension of another type.
    """
    base = " ".join(name.replace("\\", "/").rpartition("/")[2].split())[-200:]
    if len(content) > MOST_EVIDENCE_BYTES:
        raise TooLarge(
            f"{base[:100]} has {len(content):,} bytes.",
            field="evidence",
            hint="At most 5 MiB (5,242,880 bytes).",
        )
    if not content:
        raise InvalidInput(f"{base[:100]!r} is empty.", field="evidence", hint=_HINT)
    content_type = recognise_type(content)
    if content_type is None or not base.isprintable():
        raise InvalidInput(
            f"{base[:100]!r} is not a file of a known type.", field="evidence", hint=_HINT
        )
    if not base.lower().endswith(_EXTENSIONS[content_type]):
        raise InvalidInput(
            f"{base[:100]!r} does not have the extension of its content ({content_type}).",
            field="evidence",
            hint=_HINT,
        )
    return CheckedFile(base, content_type, content)


def recognise_type(content: bytes) -> str | None:
    """Return the content type of a document, None for an unknown one."""
    for signature, content_type in _SIGNATURES.items():
        if content.startswith(signature):
            return content_type
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    is_text = all(char.isprintable() or char in "\r\n\t\ufeff" for char in text)
    return "text/plain" if is_text else None
