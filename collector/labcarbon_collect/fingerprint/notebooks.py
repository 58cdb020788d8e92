"""The code of a notebook: the sources of its code cells, without outputs, counters and text.
Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, List, Tuple

MAGIC = "__magic__"  # the function of a magic line in plain Python
_MAGIC = re.compile(r"^(\s*)([%!?].*|[\w.]+\?\??\s*)$")


class InvalidNotebook(Exception):
    """A file named .ipynb is not a notebook."""


def notebook_code(content: bytes) -> str:
    """Return the code of a notebook, cell by cell. Raises InvalidNotebook."""
    sources = [source for source, _ in _code_cells(content)]
    return "".join(f"{source.rstrip()}\n\n" for source in sources if source.strip())


def parameters_cell(content: bytes) -> str:
    """Return the cell that is tagged ``parameters``, which papermill replaces; "" without one.

    Raises InvalidNotebook.
    """
    return next((source for source, tags in _code_cells(content) if "parameters" in tags), "")


def _code_cells(content: bytes) -> List[Tuple[str, List[str]]]:
    """Return source and tags of each code cell."""
    try:
        notebook: Any = json.loads(content)
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        return [
            (
                _join_source(cell.get("source", cell.get("input", ""))),
                list((cell.get("metadata") or {}).get("tags") or ()),
            )
            for cell in cells
            if cell.get("cell_type") == "code"
        ]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidNotebook("the file is not a notebook") from error


def without_magics(code: str) -> str:
    """Return the code as plain Python. Shell and magic lines become calls, so that they still
    count.
    """
    return "\n".join(
        _MAGIC.sub(lambda line: f"{line[1]}{MAGIC}({line[2]!r})", line) for line in code.split("\n")
    )


def _join_source(source: Any) -> str:
    return source if isinstance(source, str) else "".join(str(line) for line in source)
