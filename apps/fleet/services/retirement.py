"""Retirement of nodes: a retired node keeps its history, has no valid token and cannot upload."""

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import User
from apps.accounts.services.labs import revoke_node_tokens
from apps.core.errors import Conflict, NotAuthenticated
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node
from apps.fleet.selectors import TRACKER
from apps.fleet.services.dated_facts import record_audit

RETIRED = "node_retired"  # error code


def locked_machine(node: Node) -> Node:
    """Return a node with a collector, locked after its lab. Raises Conflict for another."""
    audit.hold(node.lab)
    locked = Node.objects.select_for_update().get(pk=node.pk)
    declared = locked.placements.filter(site__kind=SiteKind.DECLARED).exists()
    if declared or TRACKER in locked.facts:
        raise Conflict(
            f"{locked.name} has no collector: it comes from an import or a tracker.",
            field="item",
            hint="Choose machines with a collector only.",
        )
    return locked


@transaction.atomic
def retire_node(*, node: Node, by: User, now: int) -> Node:
    """Retire a node: its tokens end, its history stays. It is not expected to report any more."""
    locked = locked_machine(node)
    if locked.retired_us is not None:
        raise Conflict(
            f"{locked.name} is already retired.", field="item", hint="Reload the list of nodes."
        )
    locked.retired_us, locked.start_problem, locked.start_problem_us = now, "", None
    locked.save(update_fields=["retired_us", "start_problem", "start_problem_us"])
    ended = revoke_node_tokens(lab=locked.lab, node_uuid=locked.uuid, now=now)
    details = {"node": str(locked.uuid), "tokens_ended": ended}
    record_audit(locked.lab, by, Act.NODE_RETIRED, locked.name, details, now)
    return locked


@transaction.atomic
def restore_node(*, node: Node, by: User, now: int) -> Node:
    """Use a retired node again. Its tokens stay ended: it needs to be enrolled again."""
    locked = locked_machine(node)
    if locked.retired_us is None:
        raise Conflict(f"{locked.name} is not retired.", hint="Reload the page.")
    details = {"node": str(locked.uuid), "retired_us": locked.retired_us}
    locked.retired_us = None
    locked.save(update_fields=["retired_us"])
    record_audit(locked.lab, by, Act.NODE_RESTORED, locked.name, details, now)
    return locked


def restore_hint(node: Node) -> str:
    """Return how to use a retired node again."""
    address = f"{settings.SITE_URL}{reverse('node', args=[node.uuid])}"
    return (
        f"Choose “Use again” at {address}, then run `labcarbon-collect enrol {settings.SITE_URL}` "
        "on the machine."
    )


def retired_error(node: Node) -> NotAuthenticated:
    """Return the error for an upload of a retired node."""
    return NotAuthenticated("This node is retired.", hint=restore_hint(node), code=RETIRED)
