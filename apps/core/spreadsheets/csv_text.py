"""The text of an uploaded CSV file. Pure."""

from apps.core.errors import InvalidInput, TooLarge
from apps.core.text import is_unstorable

# First bytes of ZIP files, XLSX and ODS among them, and of old Excel workbooks.
_SPREADSHEETS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08", b"\xd0\xcf\x11\xe0")


def decode_csv(content: bytes, max_bytes: int) -> str:
    """Return the text of a file. Raises InvalidInput, TooLarge."""
    if len(content) > max_bytes:
        raise TooLarge(
            f"The file is larger than {max_bytes >> 20} MiB.", field="file", hint="Split it."
        )
    if content.startswith(_SPREADSHEETS):
        raise InvalidInput(
            "This is a ZIP or spreadsheet file, not CSV.",
            field="file",
            hint="Save it as CSV in UTF-8.",
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"The file is not UTF-8 text (line {line}).",
            field="file",
            hint="Save it as CSV in UTF-8.",
        ) from error
    if is_unstorable(text):
        line = text.count("\n", 0, text.index("\x00")) + 1
        raise InvalidInput(
            f"Line {line} contains a NUL character.",
            field="file",
            hint="Save the file as CSV in UTF-8.",
        )
    return text
