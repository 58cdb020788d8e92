"""Activities that follow from the items of a billed month. Pure."""

import hashlib
import json
from dataclasses import dataclass, field
from decimal import Decimal

from apps.activity.choices import ActivityKind
from apps.activity.drafts import Draft
from apps.billing.choices import Category

MILLION = Decimal(10**6)
VCPU = "vCPU"  # type of an item that counts hours of a vCPU


@dataclass(frozen=True)
class UseKey:
    """What the items of one activity have in common. ``project``: short name, '' for none."""

    start_us: int
    end_us: int
    category: str
    instance_type: str
    gpu: str
    medium: str
    region: str
    project: str


@dataclass
class Use:
    """Use of one key. ``item_ids``: its items. ``amount_millionths``: without covered hours."""

    key: UseKey
    amount_millionths: int = 0
    item_ids: list[int] = field(default_factory=list)


def draft_of(provider: str, use: Use, utilization: str) -> Draft:
    """Return the activity of a use."""
    key = use.key
    amount = plain(Decimal(use.amount_millionths) / MILLION)
    inputs = {"provider": provider}
    if key.category == Category.TRANSFER:
        kind, name, inputs = ActivityKind.NETWORK_TRANSFER, "Data transfer", {"gigabytes": amount}
    elif key.category == Category.STORAGE:
        kind, name = ActivityKind.CLOUD_STORAGE, "Storage"
        tb_months = plain(Decimal(use.amount_millionths) / MILLION / 1000)
        inputs |= {"tb_months": tb_months, "medium": key.medium, "replicas": "1"}
    else:
        kind, name = ActivityKind.CLOUD_COMPUTE, key.gpu or key.instance_type
        inputs |= {"instances": "1", "hours": amount, "utilization": utilization}
        if key.gpu:
            inputs |= {"gpus": "1", "gpu": key.gpu}
        elif key.instance_type == VCPU:
            inputs |= {"vcpus": "1"}
        else:
            inputs |= {"instance_type": key.instance_type}
    return Draft(
        kind=kind,
        name=f"{name}, {key.region}"[:200],
        start_us=key.start_us,
        end_us=key.end_us,
        inputs=inputs,
        project=key.project,
        zone=key.region,
    )


def digest_of(provider: str, account: str, month: str, draft: Draft) -> str:
    """Return the digest of what an activity is computed from."""
    content = [
        provider,
        account,
        month,
        draft.kind,
        draft.name,
        draft.start_us,
        draft.end_us,
        dict(sorted(draft.inputs.items())),
        draft.project,
        draft.zone,
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def plain(value: Decimal) -> str:
    """Return a number without exponent and without zeros at its end."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
