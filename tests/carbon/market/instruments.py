"""Instruments for tests, through the service."""

from datetime import date
from typing import Any

from apps.accounts.models import Lab
from apps.carbon.market.models import Instrument
from apps.carbon.market.services import add_instrument
from apps.carbon.market.validation import InstrumentInput
from tests.builders import T0

VALUES: dict[str, Any] = {
    "kind": "go",
    "name": "Wind park North",
    "market": ["DE"],
    "first_day": date(2026, 1, 1),
    "last_day": date(2026, 12, 31),
    "ug_per_kwh": 0,
    "volume_wh": 3_000_000,
}
RESIDUAL: dict[str, Any] = {
    "kind": "residual_mix",
    "name": "Published residual mix",
    "ug_per_kwh": 724_600_000,
    "volume_wh": None,
}


def instrument_input(**values: Any) -> InstrumentInput:
    """Return the input of a guarantee of origin for 3 MWh in Germany, with changed values."""
    return InstrumentInput(**{**VALUES, **values})


def add(lab: Lab, **values: Any) -> Instrument:
    """Add an instrument to a lab."""
    return add_instrument(lab=lab, values=instrument_input(**values), by=None, now=T0)
