"""How a reported hardware name finds its row. Pure."""

import re

_NOISE = re.compile(r"nvidia|tesla|quadro|\(r\)|\(tm\)|cpu|processor|@.*$|[\s\-]", re.IGNORECASE)
_CORES = re.compile(r"\b\d+-core\b", re.IGNORECASE)


def match_key(name: str) -> str:
    """Return ``name`` as it is compared: lower case, without vendor words, blanks and hyphens."""
    return _NOISE.sub("", _CORES.sub("", name)).lower()
