"""Rules for the nodes of fleet tokens that have a project."""

from typing import Any

from django.dispatch import receiver

from apps.accounts.models import Project, User
from apps.attribution.models import AttributionRule
from apps.attribution.services.rules import make_rule
from apps.fleet.models import Node
from apps.fleet.signals import fleet_node_enrolled


@receiver(fleet_node_enrolled, dispatch_uid="attribution.fleet_node")
def add_node_rule(*, node: Node, project: Project, by: User | None, now: int, **_: Any) -> None:
    """Attribute all energy of a new node to the project of its fleet token. What the collector
    measured before the enrolment is included.
    """
    rule = AttributionRule(lab=node.lab, node=node, project=project, from_hour=0)
    rule.note = "Fleet token"
    make_rule(rule=rule, by=by, now=now)
