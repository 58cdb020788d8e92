"""Content of the node pages: the list with coverage and health, and one node with its devices
and sites.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.accounts.selectors import has_node_token
from apps.carbon.coverage import DeviceTime, TimeShares, device_times, last_hours_in, time_shares
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.catalog.selectors import host_powers
from apps.core.units import US_PER_HOUR, US_PER_S, hour_of
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Projected,
    Quantity,
    Units,
    column_units,
    energy_and_emissions,
    percent_quantity,
    projected,
    quantity,
    total,
)
from apps.dashboard.formatting import duration, percent, shares
from apps.dashboard.nodes.forms import power_label
from apps.dashboard.nodes.node_move_page import StayRow, stay_rows
from apps.dashboard.nodes.quarantine_pages import REASONS
from apps.dashboard.periods import Period, lab_query
from apps.fleet.choices import DeviceKind, SiteKind
from apps.fleet.device_health import DeviceProblem, device_problems
from apps.fleet.models import Device, Node, Site
from apps.fleet.selectors import (
    SILENT_AFTER_US,
    TRACKER,
    placements_at,
    sites_of,
    zone_at,
    zones_at,
)
from apps.ingest.choices import Decision, EnergyQuality
from apps.ingest.models import DeclaredGap, QuarantinedWindow
from apps.ingest.selectors import declared_gaps
from apps.runs.selectors import RefusedRun, refused_runs

SKEW_LIMIT_US = 300 * US_PER_S
MAX_GAPS = 20
GAP_REASONS = {
    "counter": "the meter changed between counter and power",
    "driver": "the counter was reset",
    "lost": "no reading",
    "reboot": "the node was restarted",
    "wrap": "the counter may have overflowed",
}
MAX_REFUSED_RUNS = 50  # decided ones make room for the next


@dataclass(frozen=True)
class Covered:
    """Coverage of device time as shown: percent, bar widths and a description."""

    known: str
    widths: dict[str, str]
    description: str


@dataclass(frozen=True)
class Source:
    """A source of a collector: polls that succeeded and failed since the last upload."""

    name: str
    ok: int
    failed: int


@dataclass(frozen=True)
class NodeRow:
    """A node in the list. ``collector``: version of its collector, '' if it reports none."""

    node: Node
    site: Site | None
    zone: str
    state: str
    state_text: str
    collector: str
    devices: int
    figures: EnergyAndEmissions | None
    covered: Covered | None
    skew: str
    skew_bad: bool
    sources: list[Source]


@dataclass(frozen=True)
class QuarantinedRow:
    """Windows that are stored and not counted, by reason."""

    code: str
    reason: str
    windows: int
    nodes: str


@dataclass(frozen=True)
class SiteRow:
    """A site and its current grid zone, '' for none."""

    site: Site
    zone: str


@dataclass(frozen=True)
class RetiredSum:
    """The energy and emissions of the retired nodes that are not listed."""

    energy: Projected
    emission: Projected


@dataclass(frozen=True)
class NodesPage:
    """The list of nodes. The sum of its rows, with the energy of the retired nodes that are not
    listed, is ``totals``. ``retired``: the number of retired nodes.
    """

    period: Period
    rows: list[NodeRow]
    retired: int
    shows_retired: bool
    hidden: RetiredSum | None
    units: Units
    totals: EnergyAndEmissions | None
    quarantined: list[QuarantinedRow]
    sites: list[SiteRow]


def covered(sums: TimeShares) -> Covered | None:
    """Return the coverage of device time as shown. None if no device time was expected."""
    if not sums.expected_us:
        return None
    parts = {
        "measured": sums.measured_us,
        "estimated": sums.estimated_us,
        "unknown": sums.unknown_us,
    }
    percents = {name: percent(value, sums.expected_us) for name, value in parts.items()}
    description = (
        f"{percents['measured']} % of device time measured, {percents['estimated']} % estimated, "
        f"{percents['unknown']} % unknown"
    )
    known = percent(sums.measured_us + sums.estimated_us, sums.expected_us)
    return Covered(known, {name: f"{width}%" for name, width in shares(parts).items()}, description)


def sources_of(health: Any) -> list[Source]:
    """Return the sources in the health report of a collector, without malformed ones."""
    sources = health.get("source") if isinstance(health, dict) else None
    listed = []
    for name, counts in sorted(sources.items()) if isinstance(sources, dict) else ():
        if isinstance(counts, dict) and all(
            isinstance(counts.get(key), int) for key in ("ok", "failed")
        ):
            listed.append(Source(str(name)[:40], counts["ok"], counts["failed"]))
    return listed


def collector_version(node: Node) -> str:
    """Return the collector version of a node's last upload, or of its enrolment. '' for none."""
    version = node.health.get("collector") if isinstance(node.health, dict) else None
    if isinstance(version, str) and version:
        return version[:64]
    return str(node.facts.get("collector", ""))[:64]


def current_facts(node: Node) -> dict[str, str]:
    """Return the facts of a node's enrolment, with the collector version of its last upload."""
    facts = {str(name): str(value) for name, value in node.facts.items()}
    version = collector_version(node)
    return {**facts, "collector": version} if version else facts


def kept_messages(health: Any) -> int:
    """Return the number of run messages that a collector keeps after a refusal, 0 if it reports
    none.
    """
    spool = health.get("spool") if isinstance(health, dict) else None
    number = spool.get("refused_run_messages") if isinstance(spool, dict) else None
    return number if isinstance(number, int) and number > 0 else 0


def node_state(node: Node, site: Site | None, now: int) -> tuple[str, str]:
    """Return the state of a node: CSS class and text. Declared use has no collector, so it is
    never silent.
    """
    if site is not None and site.kind == SiteKind.DECLARED:
        return "declared", "declared use"
    if TRACKER in node.facts:
        return "declared", f"reported by {node.facts[TRACKER]}"
    if node.retired_us is not None:
        return "retired", "retired"
    if node.last_push_us is None:
        return "silent", "no upload yet"
    age = now - node.last_push_us
    return (
        ("silent", f"silent for {duration(age)}")
        if age > SILENT_AFTER_US
        else ("running", "reporting")
    )


def _skew(node: Node) -> tuple[str, bool]:
    if node.skew_us is None:
        return "", False
    return f"{node.skew_us / US_PER_S:+.1f} s".replace("-", "−"), abs(node.skew_us) > SKEW_LIMIT_US


def _quarantined_rows(lab: Lab) -> list[QuarantinedRow]:
    groups: dict[str, list[str]] = defaultdict(list)
    for reason, display_name, host in QuarantinedWindow.objects.filter(
        node__lab=lab, decision=Decision.NONE
    ).values_list("reason", "node__display_name", "node__hostname"):
        groups[reason].append(display_name or host)
    return [
        QuarantinedRow(
            reason, REASONS.get(reason, reason), len(hosts), ", ".join(sorted(set(hosts))[:5])
        )
        for reason, hosts in sorted(groups.items())
    ]


def nodes_page(*, lab: Lab, period: Period, now: int, shows_retired: bool = False) -> NodesPage:
    """Return the nodes in use, and on request the retired ones. The number of queries does not
    depend on the number of rows.
    """
    query = lab_query(lab, period)
    by_node = {str(key): part for (key,), part in figures_by(lab, query, ["node"]).items()}
    times: dict[int, list[DeviceTime]] = defaultdict(list)
    for time in device_times(lab, period.from_hour, period.to_hour, now):
        times[time.node_id].append(time)
    placements, zones = placements_at(lab, hour_of(now)), zones_at(lab, hour_of(now))
    devices: dict[int, int] = defaultdict(int)
    for node_id in (
        Device.objects.filter(lab=lab)
        .exclude(kind=DeviceKind.HOST)
        .values_list("node_id", flat=True)
    ):
        devices[node_id] += 1
    units = column_units(by_node.values())
    rows = []
    retired = []
    nodes = sorted(Node.objects.filter(lab=lab), key=lambda node: (node.name.casefold(), node.pk))
    for node in nodes:
        if node.retired_us is not None:
            retired.append(node)
            if not shows_retired:
                continue
        part = by_node.get(str(node.uuid))
        own = query.replace(subject_kind="node", subject_key=str(node.uuid))
        site = placements[node.pk].site if node.pk in placements else None
        zone = zones.get(site.pk, "") if site else ""
        state = node_state(node, site, now)
        figures = energy_and_emissions(own, part, units) if part else None
        known = covered(time_shares(times[node.pk]))
        rows.append(
            NodeRow(
                node,
                site,
                zone,
                *state,
                collector_version(node),
                devices[node.pk],
                figures,
                known,
                *_skew(node),
                sources_of(node.health),
            )
        )
    totals = energy_and_emissions(query, total(by_node.values()), units) if by_node else None
    sites = [SiteRow(site, zones.get(site.pk, "")) for site in sites_of(lab)]
    hidden = [by_node[str(node.uuid)] for node in retired if str(node.uuid) in by_node]
    return NodesPage(
        period,
        rows,
        len(retired),
        shows_retired,
        _retired_sum(query, total(hidden), units) if hidden and not shows_retired else None,
        units,
        totals,
        _quarantined_rows(lab),
        sites,
    )


def _retired_sum(query: FigureQuery, figure: Figure, units: Units) -> RetiredSum:
    return RetiredSum(
        projected(query.replace(metric="energy_mj"), figure, units.energy),
        projected(query.replace(metric="emission_ug"), figure, units.emission),
    )


@dataclass(frozen=True)
class DeviceRow:
    """A device of a node. Its energy includes hours in other nodes; ``moved`` is true if there are
    any.

    ``left_us``: the end of the last hour in this node, for a device that was measured in another
    node later.
    """

    device: Device
    energy: Quantity | None
    covered: Covered | None
    qualities: list[str]
    moved: bool
    left_us: int | None


@dataclass(frozen=True)
class GapRow:
    """A declared gap with its reason in words. A reason without words is shown as reported."""

    gap: DeclaredGap
    reason: str


@dataclass(frozen=True)
class NodePage:
    """One node over a period. ``has_token``: it has a valid token, so it can upload."""

    node: Node
    period: Period
    state: str
    state_text: str
    has_token: bool
    site: Site | None
    zone: str
    stays: list[StayRow]
    figures: EnergyAndEmissions
    measured: bool
    idle: Quantity | None
    covered: Covered | None
    devices: list[DeviceRow]
    units: Units
    total: Quantity | None
    skew: str
    skew_bad: bool
    sources: list[Source]
    facts: list[tuple[str, str]]
    static_watts: str
    power_defaults: list[tuple[str, str]]
    refused: list[RefusedRun]
    kept_messages: int
    device_problems: list[DeviceProblem]
    gaps: list[GapRow]


def node_page(*, lab: Lab, node: Node, period: Period, now: int) -> NodePage:
    """Return one node with its devices. The number of queries does not depend on the number of
    rows.
    """
    query = lab_query(lab, period)
    own = query.replace(subject_kind="node", subject_key=str(node.uuid))
    charge = {key: part for (key,), part in figures_by(lab, own, ["charge"]).items()}
    whole = total(charge.values())
    by_device = {
        device_key: part for (device_key,), part in figures_by(lab, own, ["device"]).items()
    }
    devices = list(Device.objects.filter(lab=lab, node=node).order_by("kind", "name", "key"))
    moved_keys = set(by_device) - {device.key for device in devices}
    devices += list(
        Device.objects.filter(lab=lab, key__in=moved_keys).select_related("node").order_by("key")
    )
    last_hours = last_hours_in(node, (device.pk for device in devices if device.node_id != node.pk))
    everywhere: dict[str, list[tuple[str, int, Figure]]] = defaultdict(list)
    for (key, where, quality), part in figures_by(
        lab, query, ["device", "node", "quality"], devices=[device.pk for device in devices]
    ).items():
        everywhere[key].append((where, quality, part))
    times = {
        time.device_id: time for time in device_times(lab, period.from_hour, period.to_hour, now)
    }
    units = column_units([whole])
    stays = stay_rows(node, now)
    site = next((stay.site for stay in stays if stay.when == "now"), None)
    state, state_text = node_state(node, site, now)
    skew, skew_bad = _skew(node)
    idle = charge.get("~idle")
    return NodePage(
        node=node,
        period=period,
        state=state,
        state_text=state_text,
        has_token=has_node_token(lab, node.uuid),
        site=site,
        zone=zone_at(site, hour_of(now)) if site else "",
        stays=stays,
        figures=energy_and_emissions(own, whole),
        measured=bool(charge),
        idle=percent_quantity(own.replace(consumer="idle"), idle.energy_mj, whole.energy_mj)
        if idle and whole.energy_mj
        else None,
        covered=covered(time_shares(time for time in times.values() if time.node_id == node.pk)),
        devices=[
            _device_row(
                lab,
                period,
                device,
                node,
                everywhere[device.key],
                times,
                units,
                last_hours.get(device.pk),
            )
            for device in devices
        ],
        units=units,
        total=quantity(own, whole, units.energy) if charge else None,
        skew=skew,
        skew_bad=skew_bad,
        sources=sources_of(node.health),
        facts=sorted(current_facts(node).items()),
        static_watts="" if node.static_power_mw is None else f"{node.static_power_mw / 1000:g}",
        power_defaults=[(power_label(default), default.source) for default in host_powers()],
        refused=refused_runs(node, limit=MAX_REFUSED_RUNS),
        kept_messages=kept_messages(node.health),
        device_problems=device_problems(node.health),
        gaps=[
            GapRow(gap, GAP_REASONS.get(gap.reason, gap.reason))
            for gap in declared_gaps(
                node, period.from_hour * US_PER_HOUR, period.to_hour * US_PER_HOUR, limit=MAX_GAPS
            )
        ],
    )


def _device_row(
    lab: Lab,
    period: Period,
    device: Device,
    node: Node,
    parts: list[tuple[str, int, Figure]],
    times: dict[int, DeviceTime],
    units: Units,
    last_hour: int | None,
) -> DeviceRow:
    query = lab_query(lab, period).replace(subject_kind="device", subject_key=device.key)
    time = times.get(device.pk)
    return DeviceRow(
        device,
        quantity(query, total(part for _, _, part in parts), units.energy) if parts else None,
        covered(time_shares([time])) if time else None,
        [
            EnergyQuality(quality).name.lower()
            for quality in sorted({quality for _, quality, _ in parts})
        ],
        any(where != str(node.uuid) for where, _, _ in parts),
        (last_hour + 1) * US_PER_HOUR if last_hour is not None else None,
    )
