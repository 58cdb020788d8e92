"""Why a model file is refused, in a sentence; and names of others that are safe to print. Pure."""

import re

MAX_NAME_CHARS = 120
# Control characters, and characters that change the direction of the text around them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


class Refused(Exception):
    """The file, or a shape given for it, cannot be used."""

    def __init__(self, message: str, *, hint: str, field: str = "file") -> None:
        super().__init__(message)
        self.message, self.hint, self.field = message, hint, field


def shown(name: str) -> str:
    """Return a name without control characters, shortened."""
    text = _UNSAFE.sub("\ufffd", name)
    return text if len(text) <= MAX_NAME_CHARS else f"{text[: MAX_NAME_CHARS - 1]}…"
