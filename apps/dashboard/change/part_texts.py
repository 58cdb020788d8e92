"""Texts of the parts of a change."""

from dataclasses import dataclass

from apps.carbon.change import parts


@dataclass(frozen=True)
class PartText:
    """The label of a part, what it is, and the phrase after '2 kg more' or '2 kg less' that names
    its reason: if it adds, if it reduces. ``{}`` is the name of a project.
    """

    label: str
    meaning: str
    more: str
    less: str


PART_TEXTS = {
    parts.COVERAGE: PartText(
        "Coverage",
        "Change of the share of device time with data. Use without data is unknown, not estimated.",
        "from a higher coverage",
        "from a lower coverage",
    ),
    parts.WORK: PartText(
        "Amount of work",
        "More or fewer device-hours in use, divided among projects as before.",
        "from additional device-hours of {}",
        "from fewer device-hours of {}",
    ),
    parts.MIX: PartText(
        "Shift between projects",
        "Device-hours in use moved to projects that need more or less per device-hour.",
        "from a shift to projects that need more energy",
        "from a shift to projects that need less energy",
    ),
    parts.EFFICIENCY: PartText(
        "Energy per device-hour",
        "Change of the energy per device-hour in use of the same project.",
        "from a higher energy per device-hour of {}",
        "from a lower energy per device-hour of {}",
    ),
    parts.IDLE: PartText(
        "Idle energy",
        "Energy of devices that nobody used, charged to projects or not.",
        "from idle devices",
        "from idle devices",
    ),
    parts.OVERHEAD: PartText(
        "Node overhead",
        "Energy of nodes outside their device meters.",
        "from node overhead",
        "from node overhead",
    ),
    parts.SYSTEM: PartText(
        "System",
        "Energy of processes of the machines themselves.",
        "from system processes",
        "from system processes",
    ),
    parts.UNATTRIBUTED: PartText(
        "Unattributed",
        "Energy used without a known project.",
        "from use without a project",
        "from use without a project",
    ),
    parts.PLACE: PartText(
        "Shift between nodes",
        "Use of the same project moved to nodes with other emissions per kWh.",
        "from work on nodes with higher emissions per kWh",
        "from work on nodes with lower emissions per kWh",
    ),
    parts.PUE: PartText(
        "PUE",
        "Change of facility energy per IT energy.",
        "from a higher PUE",
        "from a lower PUE",
    ),
    parts.GRID: PartText(
        "Grid intensity",
        "Change of the mean hourly or monthly factor of the same zone.",
        "from a higher grid intensity",
        "from a lower grid intensity",
    ),
    parts.EDITION: PartText(
        "Factor edition",
        "Energy priced with another factor: of another year, zone, source or resolution.",
        "from another emission factor",
        "from another emission factor",
    ),
    parts.UNSEPARATED: PartText(
        "Not separated",
        "Whole difference of nodes with less than half of their device time known in a period.",
        "from nodes without enough data",
        "from nodes without enough data",
    ),
}
