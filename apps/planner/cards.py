"""Reads of GPUs that a training could run on: those of the lab's nodes, and memory sizes of the
catalogue.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from apps.accounts.models import Lab
from apps.catalog.choices import HardwareKind
from apps.catalog.matching import match_key
from apps.catalog.models import HardwareAlias, HardwareModel
from apps.catalog.selectors import models_of
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.fleet.selectors import nodes_in_use

BYTES_PER_MIB = 2**20
LEAST_MARKET_MIB = 8 * 1024
_NO_CARDS = Q(name__icontains="Jetson") | Q(name__icontains="TPU")  # no GPU that one can add


@dataclass(frozen=True)
class NodeCard:
    """The GPUs of one model in a node. ``key``: match key of the name. ``memory_bytes``: of one,
    None unknown.
    """

    node: Node
    name: str
    key: str
    gpus: int
    memory_bytes: int | None


@dataclass(frozen=True)
class MarketSize:
    """A memory size of GPUs in the catalogue. ``example``: the newest model."""

    memory_bytes: int
    models: int
    example: str


def node_cards(lab: Lab) -> list[NodeCard]:
    """Return the GPUs of the nodes in use, by node and model. Three queries."""
    devices = (
        Device.objects.filter(lab=lab, kind=DeviceKind.GPU, node__in=nodes_in_use(lab))
        .exclude(name="")
        .select_related("node")
        .order_by("node__hostname", "node_id", "name", "pk")
    )
    groups: dict[tuple[int, str], list[Device]] = {}
    for device in devices:
        groups.setdefault((device.node_id, match_key(device.name)), []).append(device)
    sizes = _memory_sizes(lab, {key for _, key in groups})
    return [
        NodeCard(rows[0].node, rows[0].name, key, len(rows), sizes.get(key))
        for (_, key), rows in groups.items()
    ]


def _memory_sizes(lab: Lab, keys: Iterable[str]) -> dict[str, int]:
    """Return the memory of models by match key. Names have priority over aliases, models of the lab
    over shipped ones, as in the catalogue.
    """
    wanted = sorted(set(keys))
    on_offer = models_of(lab).filter(
        kind=HardwareKind.GPU, retired_us__isnull=True, memory_mib__isnull=False
    )
    ranked = [
        (model.lab_id is None, model.pk, model.match_key, model.memory_mib)
        for model in on_offer.filter(match_key__in=wanted)
    ]
    aliases = HardwareAlias.objects.filter(match_key__in=wanted, model__in=on_offer)
    further = [
        (alias.model.lab_id is None, alias.model_id, alias.match_key, alias.model.memory_mib)
        for alias in aliases.select_related("model")
    ]
    sizes: dict[str, int] = {}
    for rows in (sorted(ranked), sorted(further)):
        for _, _, key, memory_mib in rows:
            assert memory_mib is not None, "models without memory were left out"
            sizes.setdefault(key, memory_mib * BYTES_PER_MIB)
    return sizes


def market_sizes() -> list[MarketSize]:
    """Return the memory sizes of GPUs in the shipped catalogue, of 8 GiB or more and with at least
    two models, ascending. One query.
    """
    models = HardwareModel.objects.filter(
        ~_NO_CARDS,
        kind=HardwareKind.GPU,
        lab__isnull=True,
        retired_us__isnull=True,
        release_year__isnull=False,
        memory_mib__gte=LEAST_MARKET_MIB,
    ).order_by("release_year", "name")
    by_size: dict[int, list[HardwareModel]] = {}
    for model in models:
        assert model.memory_mib is not None, "models without memory were left out"
        by_size.setdefault(model.memory_mib, []).append(model)
    return [
        MarketSize(memory_mib * BYTES_PER_MIB, len(rows), rows[-1].name)
        for memory_mib, rows in sorted(by_size.items())
        if len(rows) > 1
    ]
