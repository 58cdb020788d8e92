"""The code of a notebook: the sources of its code cells, without outputs, counters and text.
Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

_MAGIC = re.compile(r"^(\s*)([%!?].*|[\w.]+\?\??\s*)$")


class InvalidNotebook(Exception):
    """A file named .ipynb is not a notebook."""


def notebook_code(content: bytes) -> str:
    """Return the code of a notebook, cell by cell. Raises InvalidNotebook."""
    try:
        notebook: Any = json.loads(content)
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        sources = [
            _join_source(cell.get("source", cell.get("input", "")))
            for cell in cells
            if cell.get("cell_type") == "code"
        ]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidNotebook("the file is not a notebook") from error
    return "".join(f"{source.rstrip()}\n\n" for source in sources if source.strip())


def without_magics(code: str) -> str:
    """Return the code as plain Python. Shell and magic lines become calls, so that they still
    count.
    """
    return "\n".join(
        _MAGIC.sub(lambda line: f"{line[1]}__magic__({line[2]!r})", line)
        for line in code.split("\n")
    )


def _join_source(source: Any) -> str:
    return source if isinstance(source, str) else "".join(str(line) for line in source)
