"""Jobs of energy."""

from apps.accounts.models import Lab
from apps.core.jobs import job
from apps.energy.services.idle import spread_idle
from apps.energy.services.ledger import attribute_ledger, resettle_node, settle_node
from apps.energy.services.utilization import record_utilization_of_node
from apps.fleet.models import Node


@job("energy.settle")
def settle_job(key: str) -> None:
    """Settle the dirty hours of node ``key``."""
    settle_node(node=Node.objects.select_related("lab").get(pk=int(key)))


@job("energy.resettle_node")
def resettle_job(key: str) -> None:
    """Mark all hours of node ``key`` dirty."""
    resettle_node(node=Node.objects.get(pk=int(key)))


@job("energy.attribute_ledger")
def attribute_job(key: str) -> None:
    """Derive the missing attributions in the ledger of lab ``key``."""
    attribute_ledger(lab=Lab.objects.get(pk=int(key)))


@job("energy.spread_idle")
def spread_job(key: str) -> None:
    """Derive the shares of idle energy of the projects of lab ``key``."""
    spread_idle(lab=Lab.objects.get(pk=int(key)))


@job("energy.record_utilization")
def utilization_job(key: str) -> None:
    """Record the utilization of the stored windows of node ``key``."""
    record_utilization_of_node(node=Node.objects.get(pk=int(key)))
