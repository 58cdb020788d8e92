"""Activities for tests."""

from typing import Any

from apps.activity.services import Draft
from tests.builders import T0

DAY_US = 86_400_000_000
YEAR_2021 = (1_609_459_200_000_000, 1_640_995_200_000_000)


def draft(**changes: Any) -> Draft:
    """Return a day of a file server in the lab's zone with 12 kWh."""
    values: dict[str, Any] = {
        "kind": "file_server",
        "name": "nas-1",
        "start_us": T0,
        "end_us": T0 + DAY_US,
        "project": "demo",
        "zone": "DE",
        "inputs": {"kwh": "12"},
    }
    return Draft(**{**values, **changes})
