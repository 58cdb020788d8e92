"""Labs with GPU nodes for tests of places."""

from uuid import uuid4

from apps.carbon.services import apply_factors
from apps.fleet.models import Node
from apps.fleet.services import register_node
from tests.builders import MINUTE, T0, SmallLab, W, push

NOW = T0 + 10 * MINUTE
T4, A100, H100 = "Tesla T4", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"


def gpu_key() -> str:
    return f"gpu:GPU-{uuid4()}"


def add_node(small: SmallLab, hostname: str) -> Node:
    """Add a node at the lab's site."""
    return register_node(
        lab=small.lab, uuid=uuid4(), hostname=hostname, facts={}, site=small.site, now=T0
    )


def report_gpus(
    node: Node,
    cards: list[str],
    *,
    util_pm: int | None = 0,
    consumer: str = "idle",
    end_us: int = NOW,
    settle: bool = False,
) -> list[str]:
    """Let a node report one minute of each card. Return the keys of the devices."""
    keys = [gpu_key() for _ in cards]
    windows = [
        W(
            key,
            3_600_000,
            end_us - MINUTE,
            end_us,
            shares=((consumer, 3_600_000),),
            util_mean_pm=util_pm,
            util_max_pm=util_pm,
        )
        for key in keys
    ]
    facts = {key: {"name": name} for key, name in zip(keys, cards, strict=True)}
    push(node, windows, sent_at=end_us, settle=settle, device_facts=facts)
    return keys


def many_nodes(small: SmallLab, number: int) -> None:
    """Add nodes with two cards each."""
    for i in range(number):
        report_gpus(add_node(small, f"gpu-{i:03}"), [T4, A100])
    apply_factors(lab=small.lab)
