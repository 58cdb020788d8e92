"""Qualities and measurements of a window, with their stored integers."""

from django.db.models import IntegerChoices, TextChoices
from labcarbon_collect.lc1.measurements import QUALITY_BY_MEASUREMENT


class Measurement(IntegerChoices):
    NVML_COUNTER = 1, "nvml_counter"
    NVML_POWER = 2, "nvml_power"
    RAPL = 3, "rapl"
    RAPL_MODEL = 4, "rapl_model"
    CPU_MODEL = 5, "cpu_model"
    HOST_STATIC = 6, "host_static"
    NODE_METER = 7, "node_meter"
    IMPORTED = 8, "imported"
    DECLARED = 9, "declared"


class EnergyQuality(IntegerChoices):
    COUNTER = 1, "COUNTER"
    SAMPLED = 2, "SAMPLED"
    MODELLED = 3, "MODELLED"
    DECLARED = 4, "DECLARED"


class ShareQuality(IntegerChoices):
    WHOLE = 1, "WHOLE"
    SPLIT = 2, "SPLIT"


class PlacementQuality(IntegerChoices):
    EXACT = 1, "EXACT"
    IMPUTED = 2, "IMPUTED"


QUALITY_OF: dict[int, int] = {
    measurement.value: EnergyQuality[QUALITY_BY_MEASUREMENT[measurement.label].upper()].value
    for measurement in Measurement
}
COUNTER_MEASUREMENTS = frozenset({Measurement.NVML_COUNTER, Measurement.RAPL})
FLAG_BRIDGED, FLAG_RECOVERED, FLAG_MERGED, FLAG_CLOCK = 1, 2, 4, 1 << 16
FLAG_DECIDED = 1 << 17  # accepted by a manager, with the time and energy that were not yet counted


class Decision(TextChoices):
    """Decision of a manager about a quarantined window."""

    NONE = "", "Not decided"
    ACCEPTED = "accepted", "Accepted"
    DISCARDED = "discarded", "Discarded"


class MoveState(TextChoices):
    PENDING = "pending", "Pending"
    ACCEPTED = "accepted", "Accepted"
    WITHDRAWN = "withdrawn", "Withdrawn"


class MoveRule(TextChoices):
    """Why a move of a device was accepted."""

    NONE = "", "Not accepted"
    MANAGER = "manager", "A manager accepted it"
    ABSENT = "absent", "The former node uploaded without the device"
    SILENT = "silent", "The former node was silent for 7 days"
