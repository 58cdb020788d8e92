"""Texts of the parts of a change."""

from dataclasses import dataclass

from apps.carbon import change_parts as parts


@dataclass(frozen=True)
class PartText:
    """The label of a part, what it is, and its cause in a sentence: if it adds, if it reduces.
    ``{}`` is the name of a project.
    """

    label: str
    meaning: str
    more: str
    less: str


PART_TEXTS = {
    parts.COVERAGE: PartText(
        "Coverage",
        "Change of the share of device time with data. Use without data is unknown, not estimated.",
        "more device time has data",
        "less device time has data",
    ),
    parts.WORK: PartText(
        "Amount of work",
        "More or fewer device-hours in use, divided among projects as before.",
        "{} used more device-hours",
        "{} used fewer device-hours",
    ),
    parts.MIX: PartText(
        "Other projects",
        "Device-hours in use moved to projects that need more or less per device-hour.",
        "projects that need more energy had a larger share",
        "projects that need less energy had a larger share",
    ),
    parts.EFFICIENCY: PartText(
        "Energy per device-hour",
        "Change of the energy per device-hour in use of the same project.",
        "{} used more energy per device-hour",
        "{} used less energy per device-hour",
    ),
    parts.IDLE: PartText(
        "Idle energy",
        "Energy of devices that nobody used, charged to projects or not.",
        "more idle energy",
        "less idle energy",
    ),
    parts.OVERHEAD: PartText(
        "Node overhead",
        "Energy of nodes outside their device meters.",
        "more node overhead",
        "less node overhead",
    ),
    parts.SYSTEM: PartText(
        "System",
        "Energy of processes of the machines themselves.",
        "more energy of system processes",
        "less energy of system processes",
    ),
    parts.UNATTRIBUTED: PartText(
        "Unattributed",
        "Energy used without a known project.",
        "more unattributed energy",
        "less unattributed energy",
    ),
    parts.PLACE: PartText(
        "Other nodes",
        "Use of the same project moved to nodes with other emissions per kWh.",
        "work moved to nodes with higher emissions per kWh",
        "work moved to nodes with lower emissions per kWh",
    ),
    parts.PUE: PartText(
        "PUE",
        "Change of facility energy per IT energy.",
        "a higher PUE",
        "a lower PUE",
    ),
    parts.GRID: PartText(
        "Grid intensity",
        "Change of the mean hourly or monthly factor of the same zone.",
        "a higher grid intensity",
        "a lower grid intensity",
    ),
    parts.EDITION: PartText(
        "Factor edition",
        "Energy priced with another factor: of another year, zone, source or resolution.",
        "another factor edition",
        "another factor edition",
    ),
    parts.UNSEPARATED: PartText(
        "Not separated",
        "Whole difference of nodes with less than half of their device time known in a period.",
        "nodes with too little data to separate",
        "nodes with too little data to separate",
    ),
}
