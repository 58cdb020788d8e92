"""An activity as entered. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Draft:
    """An activity as entered. ``project``: short name, '' for none. One of ``zone`` and
    ``ug_per_kwh``. ``pue_ppm`` None: the default of its kind.
    """

    kind: str
    name: str
    start_us: int
    end_us: int
    inputs: Mapping[str, Any]
    project: str = ""
    zone: str = ""
    ug_per_kwh: int | None = None
    pue_ppm: int | None = None
    external_id: str = ""
