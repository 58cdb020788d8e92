"""Texts of the parts of a change."""

from dataclasses import dataclass

from apps.carbon.change import parts


@dataclass(frozen=True)
class PartText:
    """The label of a part, what it is, and the clause after 'because': if it adds, if it reduces.
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
        "idle devices used more energy",
        "idle devices used less energy",
    ),
    parts.OVERHEAD: PartText(
        "Node overhead",
        "Energy of nodes outside their device meters.",
        "node overhead was higher",
        "node overhead was lower",
    ),
    parts.SYSTEM: PartText(
        "System",
        "Energy of processes of the machines themselves.",
        "system processes used more energy",
        "system processes used less energy",
    ),
    parts.UNATTRIBUTED: PartText(
        "Unattributed",
        "Energy used without a known project.",
        "unattributed use was higher",
        "unattributed use was lower",
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
        "the PUE was higher",
        "the PUE was lower",
    ),
    parts.GRID: PartText(
        "Grid intensity",
        "Change of the mean hourly or monthly factor of the same zone.",
        "the grid intensity was higher",
        "the grid intensity was lower",
    ),
    parts.EDITION: PartText(
        "Factor edition",
        "Energy priced with another factor: of another year, zone, source or resolution.",
        "another factor applied",
        "another factor applied",
    ),
    parts.UNSEPARATED: PartText(
        "Not separated",
        "Whole difference of nodes with less than half of their device time known in a period.",
        "nodes without enough data changed",
        "nodes without enough data changed",
    ),
}
