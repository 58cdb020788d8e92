"""Server and collector agree on the measurements there are and on the energy quality of each."""

import pytest
from labcarbon_collect.figure_text import QUALITIES, by_quality
from labcarbon_collect.lc1.measurements import QUALITY_BY_MEASUREMENT

from apps.ingest.choices import QUALITY_OF, EnergyQuality, Measurement

# docs/collector.md and the wire format: what a window may say, and what the ledger stores for it.
STORED = {
    "nvml_counter": (1, 1),
    "nvml_power": (2, 2),
    "rapl": (3, 1),
    "rapl_model": (4, 3),
    "cpu_model": (5, 3),
    "host_static": (6, 3),
    "node_meter": (7, 1),
    "imported": (8, 2),
    "declared": (9, 4),
}


def test_the_table_has_exactly_the_measurements_of_the_server() -> None:
    assert (
        set(QUALITY_BY_MEASUREMENT)
        == {measurement.label for measurement in Measurement}
        == set(STORED)
    )
    assert (
        set(QUALITY_BY_MEASUREMENT.values())
        == set(QUALITIES)
        == {quality.label.lower() for quality in EnergyQuality}
    )


@pytest.mark.parametrize("name", sorted(STORED))
def test_server_and_collector_give_a_measurement_the_same_quality(name: str) -> None:
    measurement, quality = STORED[name]
    assert Measurement(measurement).label == name
    assert QUALITY_OF[measurement] == quality
    assert by_quality({"device": 7}, {"device": name}) == {EnergyQuality(quality).label.lower(): 7}
