"""What needs a person: what no program can mend, each with the page or command that does."""

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
    "conflict": "other content under a key that is taken",
    "clock": "the clock of the machine cannot be trusted",
    "future": "measured later than now, by the clock of the machine",
    "impossible": "more energy than the device can draw",
    "overlap": "over time that is measured already",
}
_MAX_LISTED = 5
DOCTOR = "labcarbon-collect doctor"


@dataclass(frozen=True)
class Alert:
    """One thing to do. ``fig`` stands before the title, ``command`` after the text."""

    title: str
    text: str
    href: str
    action: str
    quantity: Quantity | None = None
    command: str = ""


def _node_alerts(lab: Lab, now: int) -> list[Alert]:
    waiting = Q(last_push_us__lt=now - SILENT_AFTER_US) | Q(last_push_us__isnull=True, enrolled_us__lt=now - SILENT_AFTER_US)
    silent = list(measured_nodes(lab).filter(waiting)[: _MAX_LISTED + 1])
    alerts = [_silent_node_alert(node, now) for node in silent[:_MAX_LISTED]]
    if len(silent) > _MAX_LISTED:
        alerts.append(
            Alert("More nodes are silent", "All of them are listed with their last push.", reverse("nodes"), "Nodes")
        )
    return alerts


def _silent_node_alert(node: Node, now: int) -> Alert:
    if node.last_push_us is None:
        text = "It was enrolled and has not pushed yet. On that machine:"
        return Alert(f"{node.hostname} never sent anything", text, reverse("node", args=[node.uuid]), "Mend", command=DOCTOR)
    title = f"{node.hostname} has been silent for {duration(now - node.last_push_us)}"
    text = "What it used since then is unknown until it pushes again. On that machine:"
    return Alert(title, text, reverse("node", args=[node.uuid]), "Mend", command=DOCTOR)


def alerts_of(lab: Lab, charges: list[Charge], now: int) -> list[Alert]:
    """Return what needs a person, most pressing first. Five queries."""
    alerts = [
        Alert(
            f"No grid zone is chosen for {site.name}",
            "Its energy is counted, its carbon is not known.",
            reverse("site", args=[site.pk]),
            "Choose",
        )
        for site in sites_without_zone(lab).exclude(kind="declared").order_by("name")[:_MAX_LISTED]
    ]
    alerts += _node_alerts(lab, now)
    alerts += [
        Alert(problem.title, problem.text, reverse(problem.page.url_name, args=problem.page.args), "See")
        for problem in registry.problems(lab)
    ]
    for charge in charges:
        if charge.key == "~unattributed" and charge.figure.energy_mj:
            text = "Claim what is past; a rule for a user, an account or a machine decides what comes."
            energy = quantity(charge.query.replace(metric="energy_mj"), charge.figure)
            alerts.append(Alert("used, and no project known", text, charge.href, "Claim", energy))
    for reason, (windows, _) in sorted(quarantined(lab).items()):
        text = f"Kept, and not counted: {REASONS.get(reason, reason)}."
        alerts.append(Alert(f"{windows} windows were set aside", text, f"{reverse('nodes')}#set-aside", "See"))
    unknown_overhead = list(measured_nodes(lab).filter(static_power_mw__isnull=True, virtual=False)[: _MAX_LISTED + 1])
    if unknown_overhead:
        names = ", ".join(node.hostname for node in unknown_overhead[:_MAX_LISTED]) + (
            " …" if len(unknown_overhead) > _MAX_LISTED else ""
        )
        text = "Fans, boards, disks and losses of the power supply are in no figure until somebody says what they draw."
        href = f"{reverse('node', args=[unknown_overhead[0].uuid])}#rest"
        alerts.append(Alert(f"The rest of the node is unknown for {names}", text, href, "Say"))
    return alerts
