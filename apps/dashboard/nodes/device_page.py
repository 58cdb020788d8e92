"""Content of the page of a device: its energy and its node history."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.carbon.coverage import device_stays, device_times, time_shares
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Quantity,
    Units,
    column_units,
    energy_and_emissions,
    quantity,
    total,
)
from apps.dashboard.nodes.node_pages import Covered, covered
from apps.dashboard.periods import Period, lab_query
from apps.fleet.models import Device, Node
from apps.ingest.choices import EnergyQuality


@dataclass(frozen=True)
class DeviceStayRow:
    """A period of whole hours of the device in a node, with its energy. ``moved_with``: the
    second node of hours in which the device was measured in two nodes. ``present``: the latest
    period.
    """

    node: Node
    moved_with: Node | None
    from_us: int
    to_us: int
    energy: Quantity
    present: bool


@dataclass(frozen=True)
class DevicePage:
    """A device over a period, and its whole node history. The sum of the rows of the history is
    ``total``.
    """

    device: Device
    period: Period
    figures: EnergyAndEmissions | None
    qualities: list[str]
    covered: Covered | None
    stays: list[DeviceStayRow]
    units: Units
    total: Quantity | None
    nodes: int
    facts: list[tuple[str, str]]


def device_page(*, lab: Lab, device: Device, period: Period, now: int) -> DevicePage:
    """Return one device. The number of queries does not depend on the number of rows."""
    query = lab_query(lab, period).replace(subject_kind="device", subject_key=device.key)
    figures = {quality: part for (quality,), part in figures_by(lab, query, ["quality"]).items()}
    times = [
        time
        for time in device_times(lab, period.from_hour, period.to_hour, now)
        if time.device_id == device.pk
    ]
    stays = device_stays(device)
    nodes = Node.objects.in_bulk(
        {stay.node_id for stay in stays} | {stay.other_id for stay in stays if stay.other_id}
    )
    units = column_units([Figure(energy_mj=stay.energy_mj) for stay in stays])

    def own(from_hour: int, to_hour: int, energy_mj: int) -> Quantity:
        stay_query = FigureQuery(
            metric="energy_mj",
            from_hour=from_hour,
            to_hour=to_hour,
            basis=lab.basis,
            subject_kind="device",
            subject_key=device.key,
        )
        return quantity(stay_query, Figure(energy_mj=energy_mj), units.energy)

    rows = [
        DeviceStayRow(
            nodes[stay.node_id],
            nodes[stay.other_id] if stay.other_id is not None else None,
            stay.from_hour * US_PER_HOUR,
            stay.to_hour * US_PER_HOUR,
            own(stay.from_hour, stay.to_hour, stay.energy_mj),
            stay is stays[-1],
        )
        for stay in stays
    ]
    whole = sum(stay.energy_mj for stay in stays)
    return DevicePage(
        device=device,
        period=period,
        figures=energy_and_emissions(query, total(figures.values())) if figures else None,
        qualities=[EnergyQuality(quality).name.lower() for quality in sorted(figures)],
        covered=covered(time_shares(times)),
        stays=rows[::-1],
        units=units,
        total=own(stays[0].from_hour, stays[-1].to_hour, whole) if stays else None,
        nodes=len(nodes),
        facts=[(str(name), str(value)) for name, value in sorted(device.facts.items())],
    )
