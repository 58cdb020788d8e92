"""The training of an uploaded model, as parameters of the address."""

from typing import Any

from django.http import QueryDict
from rest_framework import serializers

from apps.core.errors import InvalidInput
from apps.planner.formulas.lesson_memory import OPTIMISER_STATES
from apps.planner.formulas.training_setup import MAX_COUNT, PRECISIONS, Training

# Of last blocks, the trained parameters are unknown: a graph has no blocks.
_PARTS = ("full", "head", "lora", "inference")


class TrainingQuery(serializers.Serializer[Any]):
    """Without ``batch`` there is no training, and no other parameter."""

    batch = serializers.IntegerField(
        min_value=1, max_value=MAX_COUNT, required=False, help_text="samples of a step on one GPU"
    )
    optimiser = serializers.ChoiceField(choices=sorted(OPTIMISER_STATES), default="adam")
    precision = serializers.ChoiceField(choices=sorted(PRECISIONS), default="fp32")
    trainable = serializers.ChoiceField(choices=_PARTS, default="full")
    lora_rank = serializers.IntegerField(min_value=1, max_value=MAX_COUNT, default=8)
    checkpointing = serializers.BooleanField(default=False)


def parse_training(query: QueryDict) -> Training | None:
    """Return the training of an address, None without one. Raises InvalidInput."""
    given = {name: query[name] for name in query if name != "input"}
    if not given:
        return None
    unknown = sorted(set(given) - set(TrainingQuery().fields))
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not a known name.",
            field=unknown[0],
            hint=f"Known: input, {', '.join(TrainingQuery().fields)}.",
        )
    body = TrainingQuery(data=given)
    body.is_valid(raise_exception=True)
    data = body.validated_data
    if "batch" not in data:
        raise InvalidInput(
            "The memory of a training needs its batch.", field="batch", hint="State batch=32."
        )
    return Training(
        micro_batch=data["batch"],
        optimiser=data["optimiser"],
        precision=data["precision"],
        part=data["trainable"],
        lora_rank=data["lora_rank"],
        has_checkpointing=data["checkpointing"],
    )
