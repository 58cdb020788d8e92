"""Alerts of the overview: problems that need a decision or a repair, each with the page or
command for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Value
from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.edition_changes import recent_repricings
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.database.health import current_problem
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import Quantity, quantity
from apps.dashboard.formatting import EMISSION, duration, format_value, unit_for
from apps.dashboard.nodes.quarantine_pages import REASONS, energy_of
from apps.dashboard.overview.energy_use import Charge
from apps.fleet.choices import SiteKind
from apps.fleet.device_health import device_problems
from apps.fleet.fleet_token_selectors import refused_enrolments, waiting_enrolments
from apps.fleet.selectors import NodeStatus, zone_problems
from apps.ingest.selectors import quarantined, withdrawn_moves
from apps.pollers.selectors import troubled_sources
from apps.runs.selectors import nodes_with_refused_messages
from apps.trackers import registry

_MAX_LISTED = 5
SHOWN_US = 30 * 24 * US_PER_HOUR
_MAX_MONTHS = 12
DOCTOR = "labcarbon-collect doctor"


@dataclass(frozen=True)
class Alert:
    """A problem with its action. Pages show ``quantity`` before the title and ``command`` after
    the text.
    """

    title: str
    text: str
    href: str
    action: str
    kind: str
    quantity: Quantity | None = None
    command: str = ""


def emission_change(before_ug: int, after_ug: int) -> str:
    """Return emissions before and after in the largest unit that shows their difference."""
    largest = EMISSION.index(unit_for("emission_ug", [before_ug, after_ug]))
    for unit in reversed(EMISSION[: largest + 1]):
        before, after = format_value(before_ug, unit), format_value(after_ug, unit)
        if before != after:
            break
    if before == after:
        return f"{after} {unit.name}, changed by less than it shows"
    return f"{before} → {after} {unit.name}"


def _zone_alerts(lab: Lab) -> list[Alert]:
    """Return alerts of sites without a zone, and of zones that are no grid zones. One query."""
    problems = zone_problems(lab)
    alerts = [
        Alert(
            f"No grid zone for {found.site.name}",
            "Energy of the site is counted. Its emissions are unknown until you choose a zone.",
            reverse("site", args=[found.site.pk]),
            "Choose zone",
            "zone",
        )
        for found in [each for each in problems if not each.zone][:_MAX_LISTED]
    ]
    alerts += [
        Alert(
            f"{found.zone} of {found.site.name} is no grid zone",
            f"It is a cloud region: its energy counts for {found.grid_zone}. Confirm the zone."
            if found.grid_zone
            else "Its energy is counted. Its emissions are unknown until you choose a zone.",
            reverse("site", args=[found.site.pk]),
            "Choose zone",
            "unlisted-zone",
        )
        for found in [each for each in problems if each.zone][:_MAX_LISTED]
        if found.site.kind != SiteKind.DECLARED or not found.grid_zone
    ]
    return alerts


def _factor_alerts(lab: Lab, now: int) -> list[Alert]:
    alerts = []
    for _, months in recent_repricings(lab, since_us=now - SHOWN_US):
        if not months:
            continue
        listed = [
            f"{change.month.name}: {emission_change(change.before_ug, change.after_ug)}"
            for change in months[-_MAX_MONTHS:]
        ]
        rest = (
            f", and {len(months) - len(listed)} earlier months" if len(months) > len(listed) else ""
        )
        query = FigureQuery(
            metric="emission_ug",
            from_hour=months[-1].month.from_hour,
            to_hour=months[-1].month.to_hour,
            basis=lab.basis,
        )
        alerts.append(
            Alert(
                "New emission factors changed past figures",
                f"{', '.join(listed)}{rest}. The audit log lists all months and factors.",
                f"{reverse('explain')}?{query.to_query_string()}",
                "Show explanation",
                "factors",
            )
        )
    return alerts


def _node_alerts(nodes: Sequence[NodeStatus], now: int) -> list[Alert]:
    silent = [node for node in nodes if node.is_waiting(now) and not node.start_problem]
    stopped = [node for node in nodes if node.start_problem]
    alerts = [_start_problem_alert(node, now) for node in stopped[:_MAX_LISTED]]
    if len(stopped) > _MAX_LISTED:
        alerts.append(
            Alert(
                f"{len(stopped) - _MAX_LISTED} more collectors do not measure",
                "The page of each node states the reason.",
                reverse("nodes"),
                "Show nodes",
                "start-problem",
            )
        )
    alerts += [_silent_node_alert(node, now) for node in silent[:_MAX_LISTED]]
    if len(silent) > _MAX_LISTED:
        alerts.append(
            Alert(
                "More silent nodes",
                "The list of nodes shows the last upload of each.",
                reverse("nodes"),
                "Show nodes",
                "silent",
            )
        )
    return alerts


def _start_problem_alert(node: NodeStatus, now: int) -> Alert:
    period = duration(max(0, now - (node.start_problem_us or now)))
    return Alert(
        f"The collector of {node.name} does not measure",
        f"For {period}: {node.start_problem.rstrip('.')}. Energy since the last upload is unknown. "
        "Correct this on the node, start the collector again, and check it with",
        f"{reverse('node', args=[node.uuid])}#start-problem",
        "Show node",
        "start-problem",
        command=DOCTOR,
    )


def _silent_node_alert(node: NodeStatus, now: int) -> Alert:
    if node.last_push_us is None:
        title = f"{node.name} has not uploaded yet"
        text = "The node is enrolled but has sent no data. Find the cause on the node with"
    else:
        title = f"{node.name} has been silent for {duration(now - node.last_push_us)}"
        text = "Energy since the last upload is unknown. Find the cause on the node with"
    return Alert(
        title, text, reverse("node", args=[node.uuid]), "Show node", "silent", command=DOCTOR
    )


def _quarantine_alerts(lab: Lab, now: int) -> list[Alert]:
    alerts = []
    groups = quarantined(lab)
    if groups:
        windows = sum(count for count, _ in groups.values())
        total = energy_of(sum(energy_mj for _, energy_mj in groups.values()))
        reasons = ", ".join(REASONS.get(reason, reason) for reason in sorted(groups))
        alerts.append(
            Alert(
                f"Not placed: {total.text}",
                f"{windows} quarantined window{' is' if windows == 1 else 's are'} stored but not "
                f"counted. Reason{'' if len(groups) == 1 else 's'}: {reasons}.",
                reverse("quarantine"),
                "Decide",
                "quarantined",
            )
        )
    alerts += [
        Alert(
            f"{move.device} is reported by {move.from_node} and {move.to_node}",
            f"It moved to {move.to_node}, and {move.from_node} uploaded it afterwards. The windows "
            f"of both are counted. Stop the collector that does not have this device.",
            reverse("device", args=[move.device.key]),
            "Show device",
            "device-conflict",
        )
        for move in withdrawn_moves(lab, now - SHOWN_US)[:_MAX_LISTED]
    ]
    return alerts


def _device_alerts(nodes: Sequence[NodeStatus], now: int) -> list[Alert]:
    """Return an alert per silent GPU, and per node one of lost GPUs and one of GPUs whose counter
    is not used.
    """
    alerts = []
    found = [(node, problems) for node in nodes if (problems := device_problems(node.health))]
    for node, problems in found[:_MAX_LISTED]:
        href = f"{reverse('node', args=[node.uuid])}#device-problems"
        silent = [problem for problem in problems if problem.state == "silent"]
        alerts += [
            Alert(
                f"GPU silent: {problem.name} of {node.name}",
                f"No reading for {duration(max(0, now - problem.since_us))}. Its energy is "
                "unknown. Find the cause on the node with",
                href,
                "Show node",
                "gpu-silent",
                command=DOCTOR,
            )
            for problem in silent[:_MAX_LISTED]
        ]
        lost = [problem for problem in problems if problem.state == "lost"]
        if lost:
            names = lost[0].name if len(lost) == 1 else f"{len(lost)} GPUs"
            alerts.append(
                Alert(
                    f"GPU lost: {names} of {node.name}",
                    "No response, so the energy is unknown. Find the cause on the node with",
                    href,
                    "Show node",
                    "gpu-problem",
                    command=DOCTOR,
                )
            )
        by_power = sum(problem.state == "power" for problem in problems)
        if by_power:
            gpus = f"{by_power} GPU{'' if by_power == 1 else 's'}"
            alerts.append(
                Alert(
                    f"Energy counter of {gpus} of {node.name} not used",
                    "The energy is integrated from power samples. Find the cause on the node with",
                    href,
                    "Show node",
                    "gpu-problem",
                    command=DOCTOR,
                )
            )
    return alerts


def _database_alerts() -> list[Alert]:
    """Return an alert for a database that is damaged, or cannot be written."""
    reason = current_problem()
    if reason is None:
        return []
    return [
        Alert(
            reason.message,
            reason.explain_hint(),
            reverse("readyz"),
            "Show status",
            "database",
        )
    ]


_ENROLMENTS = {
    "node-waiting": (
        "waiting for approval",
        "Their collectors measure and upload after your approval.",
        "waiting",
    ),
    "node-refused": (
        "known already: enrolment refused",
        "Allow a node that was installed again. Do not allow a copied disk.",
        "known",
    ),
}


def _enrolment_alerts(lab: Lab, now: int) -> list[Alert]:
    """Return an alert of nodes that wait for approval, and one of known nodes that were refused.
    One query.
    """
    waiting = waiting_enrolments(lab).order_by().annotate(kind=Value("node-waiting"))
    refused = refused_enrolments(lab, now).order_by().annotate(kind=Value("node-refused"))
    names: dict[str, list[str]] = {kind: [] for kind in _ENROLMENTS}
    found = waiting.values_list("kind", "hostname", "created_us").union(
        refused.values_list("kind", "hostname", "last_us"), all=True
    )
    for kind, hostname, _ in sorted(found, key=lambda row: row[2]):
        names[kind].append(hostname)
    return [
        Alert(
            f"{', '.join(hosts[:_MAX_LISTED])}{' …' if len(hosts) > _MAX_LISTED else ''}: {title}",
            text,
            f"{reverse('node-add')}#{anchor}",
            "Decide",
            kind,
        )
        for kind, (title, text, anchor) in _ENROLMENTS.items()
        if (hosts := names[kind])
    ]


def alerts_of(
    lab: Lab,
    charges: list[Charge],
    nodes: Sequence[NodeStatus],
    now: int,
    *,
    can_manage: bool = False,
) -> list[Alert]:
    """Return the alerts of a lab, most urgent first. Those of the server are for managers."""
    alerts = [*_database_alerts(), *_enrolment_alerts(lab, now)] if can_manage else []
    alerts += _zone_alerts(lab)
    alerts += _factor_alerts(lab, now)
    alerts += _node_alerts(nodes, now)
    alerts += _device_alerts(nodes, now)
    alerts += [
        Alert(
            problem.title,
            problem.text,
            reverse(problem.page.url_name, args=problem.page.args),
            "Show details",
            "tracker",
        )
        for problem in registry.problems(lab)[:_MAX_LISTED]
    ]
    alerts += [
        Alert(
            f"Asset source {source.name} is stopped"
            if source.halted_us
            else f"Asset source {source.name} is not usable",
            source.problem,
            reverse("asset-source", args=[source.pk]),
            "Show details",
            "asset-source",
        )
        for source in troubled_sources(lab, _MAX_LISTED)
    ]
    for charge in charges:
        if charge.key == "~unattributed" and charge.figure.energy_mj:
            text = (
                "Claim past energy, or add a rule for a user, an account or a node to attribute "
                "future energy."
            )
            energy = quantity(charge.query.replace(metric="energy_mj"), charge.figure)
            alerts.append(
                Alert(
                    "not attributed to a project",
                    text,
                    charge.href,
                    "Claim energy",
                    "unattributed",
                    energy,
                )
            )
    alerts += _quarantine_alerts(lab, now)
    alerts += [
        Alert(
            f"Refused run messages of {node.name}",
            "The node may not change these runs. Accept or discard its messages.",
            f"{reverse('node', args=[node.uuid])}#refused-messages",
            "Decide",
            "refused-messages",
        )
        for node in nodes_with_refused_messages(lab).order_by("hostname")[:_MAX_LISTED]
    ]
    unknown_overhead = [node for node in nodes if node.static_power_mw is None and not node.virtual]
    if unknown_overhead:
        names = ", ".join(node.name for node in unknown_overhead[:_MAX_LISTED]) + (
            " …" if len(unknown_overhead) > _MAX_LISTED else ""
        )
        text = (
            "Figures exclude fans, boards, disks and power supply losses until you enter the "
            "power they draw."
        )
        href = f"{reverse('node', args=[unknown_overhead[0].uuid])}#overhead"
        alerts.append(
            Alert(f"Node overhead unknown for {names}", text, href, "Enter power", "overhead")
        )
    return alerts
