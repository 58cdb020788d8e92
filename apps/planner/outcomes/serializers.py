"""Response of GET plan/estimates/<uuid>/."""

from typing import Any

from rest_framework import serializers

from apps.planner.choices import Basis
from apps.planner.outcomes.states import NotScored, OutcomeState
from apps.planner.serializers import ConditionsReply, RangeReply


class OutcomeReply(serializers.Serializer[Any]):
    state = serializers.ChoiceField(OutcomeState.choices)
    reason = serializers.ChoiceField(
        NotScored.choices, allow_null=True, help_text="why a run is not scored"
    )
    scored_at = serializers.DateTimeField(
        allow_null=True, help_text="time of the latest change of the figures below"
    )
    time_us = serializers.IntegerField(allow_null=True)
    gpu_energy_mj = serializers.IntegerField(allow_null=True, help_text="null: not measured")
    node_energy_mj = serializers.IntegerField(allow_null=True, help_text="null: not measured")


class StoredEstimateReply(serializers.Serializer[Any]):
    uuid = serializers.UUIDField()
    project = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    version = serializers.IntegerField(help_text="of the formulas")
    basis = serializers.ChoiceField(Basis.choices)
    facts = serializers.DictField(help_text="what it rests on; without a basis: what is missing")
    input = serializers.DictField(help_text="model costs, training, work and place")
    time_us = RangeReply(allow_null=True)
    gpu_energy_mj = RangeReply(allow_null=True, help_text="of the GPUs")
    node_energy_mj = RangeReply(allow_null=True, help_text="of the run, all devices of its node")
    emission_ug = RangeReply(allow_null=True)
    cost_ucurrency = RangeReply(allow_null=True)
    currency = serializers.CharField(allow_null=True)
    conditions = ConditionsReply()
    run = serializers.UUIDField(allow_null=True, help_text="the run that it is attached to")
    attached_at = serializers.DateTimeField(allow_null=True)
    outcome = OutcomeReply()
