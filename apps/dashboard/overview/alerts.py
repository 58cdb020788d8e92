"""Alerts of the overview: problems that need a decision or a repair, each with the page or
command for it.
"""

from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse

from apps.accounts.models import Lab
from apps.dashboard.figures import Quantity, quantity
from apps.dashboard.formatting import duration
from apps.dashboard.overview.energy_use import Charge
from apps.fleet.models import Node
from apps.fleet.selectors import SILENT_AFTER_US, measured_nodes, sites_without_zone
from apps.ingest.selectors import quarantined
from apps.trackers import registry

REASONS = {
    "conflict": "different content under an existing key",
    "clock": "unreliable clock of the node",
    "future": "time stamp in the future",
    "impossible": "more energy than the device can draw",
    "overlap": "overlap with time that is already measured",
}
_MAX_LISTED = 5
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


def _node_alerts(lab: Lab, now: int) -> list[Alert]:
    waiting = Q(last_push_us__lt=now - SILENT_AFTER_US) | Q(
        last_push_us__isnull=True, enrolled_us__lt=now - SILENT_AFTER_US
    )
    silent = list(measured_nodes(lab).filter(waiting)[: _MAX_LISTED + 1])
    alerts = [_silent_node_alert(node, now) for node in silent[:_MAX_LISTED]]
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


def _silent_node_alert(node: Node, now: int) -> Alert:
    if node.last_push_us is None:
        title = f"{node.hostname} has not uploaded yet"
        text = "The node is enrolled but has sent no data. Find the cause on the node with"
    else:
        title = f"{node.hostname} has been silent for {duration(now - node.last_push_us)}"
        text = "Energy since the last upload is unknown. Find the cause on the node with"
    return Alert(
        title, text, reverse("node", args=[node.uuid]), "Show node", "silent", command=DOCTOR
    )


def alerts_of(lab: Lab, charges: list[Charge], now: int) -> list[Alert]:
    """Return the alerts of a lab, most urgent first. Five queries."""
    alerts = [
        Alert(
            f"No grid zone for {site.name}",
            "Energy of the site is counted. Its emissions are unknown until you choose a zone.",
            reverse("site", args=[site.pk]),
            "Choose zone",
            "zone",
        )
        for site in sites_without_zone(lab).exclude(kind="declared").order_by("name")[:_MAX_LISTED]
    ]
    alerts += _node_alerts(lab, now)
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
    for reason, (windows, _) in sorted(quarantined(lab).items()):
        text = f"They are stored but not counted. Reason: {REASONS.get(reason, reason)}."
        title = f"{windows} quarantined window{'' if windows == 1 else 's'}"
        alerts.append(
            Alert(title, text, f"{reverse('nodes')}#quarantined", "Show windows", "quarantined")
        )
    unknown_overhead = list(
        measured_nodes(lab).filter(static_power_mw__isnull=True, virtual=False)[: _MAX_LISTED + 1]
    )
    if unknown_overhead:
        names = ", ".join(node.hostname for node in unknown_overhead[:_MAX_LISTED]) + (
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
