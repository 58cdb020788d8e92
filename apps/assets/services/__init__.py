"""Writes of assets: register, lifecycle events and their reversal, meters, storage."""

from apps.assets.services.events import correct_opening, record, record_many, reverse, standing_rows
from apps.assets.services.meters import set_meter, store
from apps.assets.services.register import describe, register, register_many
from apps.assets.services.upgrade import upgrade
from apps.assets.services.validation import (
    Draft,
    Embodied,
    Entry,
    Facts,
    closing_entries,
    default_life_hours,
    embodied_of_configuration,
)

__all__ = [
    "Draft", "Embodied", "Entry", "Facts", "closing_entries", "correct_opening",
    "default_life_hours", "describe", "embodied_of_configuration", "record", "record_many",
    "register", "register_many", "reverse", "set_meter", "standing_rows", "store", "upgrade",
]  # fmt: skip
