"""Values and choices of the field "Run on" of the planner."""

from collections.abc import Sequence
from typing import Any

from apps.dashboard.planner.sizes import memory_size
from apps.fleet.models import Node
from apps.planner.cards import MarketSize, NodeCard

NO_GPU = ""
ANY_GPU = "any"


def place_value(card: NodeCard) -> str:
    """Return the value of a card of a node."""
    return f"{card.node.uuid}.{card.key}"


def node_value(node: Node) -> str:
    """Return the value of a node without a GPU."""
    return f"{node.uuid}."


def size_value(size: MarketSize) -> str:
    """Return the value of a memory size."""
    return f"any-{size.memory_bytes}"


def default_place(cards: Sequence[NodeCard]) -> str:
    """Return the place of a new form: the card with the most memory, none without one."""
    known = [card for card in cards if card.memory_bytes]
    largest = max(known, key=lambda card: card.memory_bytes or 0, default=None)
    return place_value(largest) if largest else NO_GPU


def place_choices(
    cards: Sequence[NodeCard], market: Sequence[MarketSize], node: Node | None
) -> list[Any]:
    """Return the choices. ``node``: a further one, for a training without a GPU."""
    own = [
        (
            place_value(card),
            f"{card.node.name} · {card.name}"
            + (f" · {memory_size(card.memory_bytes)}" if card.memory_bytes else ""),
        )
        for card in cards
    ]
    if node is not None:
        own.append((node_value(node), f"{node.name} · no GPU"))
    sizes = [(size_value(size), f"Any card · {memory_size(size.memory_bytes)}") for size in market]
    return [
        (NO_GPU, "No card"),
        (ANY_GPU, "Unknown card"),
        *([("Lab", own)] if own else []),
        *([("Catalogue", sizes)] if sizes else []),
    ]
