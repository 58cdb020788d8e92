"""Qualities and measurements of a window, with their stored integers."""

from django.db.models import IntegerChoices
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
