"""The request and reply of a planned sweep."""

from typing import Any

from rest_framework import serializers

from apps.core.api import StrictSerializer
from apps.planner.sweeps.sweep import MAX_RUNS

FORMATS = ("json", "hydra", "wandb")
MAX_LISTED = 200
_HELP_OF_TOTAL = "null: no basis, since no run of the family has it"


class SweepBody(StrictSerializer):
    format = serializers.ChoiceField(
        choices=FORMATS,
        help_text=(
            "json: a grid {name: [values]} or a list of runs; hydra: overrides of a multirun; "
            "wandb: configuration of a sweep as YAML"
        ),
    )
    text = serializers.CharField(trim_whitespace=False, help_text="the sweep in this format")
    runs = serializers.IntegerField(
        min_value=1,
        max_value=MAX_RUNS,
        required=False,
        allow_null=True,
        help_text="number of runs of a W&B sweep without run_cap",
    )
    base = serializers.UUIDField(
        required=False, allow_null=True, help_text="an earlier run that the sweep varies"
    )
    fingerprint = serializers.DictField(
        required=False,
        allow_null=True,
        help_text="instead of base: fingerprint of the work that the sweep varies",
    )
    project = serializers.CharField(
        max_length=60, required=False, allow_null=True, allow_blank=True
    )
    random_runs = serializers.IntegerField(
        min_value=1,
        max_value=MAX_RUNS,
        required=False,
        allow_null=True,
        help_text="runs of the random alternative; default: the fewest that cover each value",
    )


class TotalReply(serializers.Serializer[Any]):
    measured = serializers.IntegerField(help_text="measured runs from which it is computed")
    likely = serializers.IntegerField(help_text="by their mean")
    low = serializers.IntegerField(allow_null=True, help_text="by their P10; null: one run only")
    high = serializers.IntegerField(allow_null=True, help_text="by their P90")


class TotalsReply(serializers.Serializer[Any]):
    energy_mj = TotalReply(allow_null=True, help_text=_HELP_OF_TOTAL)
    emission_ug = TotalReply(allow_null=True, help_text=_HELP_OF_TOTAL)
    cost_ucurrency = TotalReply(allow_null=True, help_text=_HELP_OF_TOTAL)


class DuplicateReply(serializers.Serializer[Any]):
    run = serializers.IntegerField(help_text="number in the sweep, from 1")
    of = serializers.IntegerField(help_text="number of the run that it repeats")
    params = serializers.DictField()
    possible = serializers.BooleanField(help_text="true: labels differ, such as run_name")


class DoneReply(serializers.Serializer[Any]):
    run = serializers.IntegerField(help_text="number in the sweep, from 1")
    params = serializers.DictField()
    uuid = serializers.UUIDField(allow_null=True, help_text="null: you may not see the run")
    url = serializers.CharField(allow_null=True)
    started_at = serializers.DateTimeField()
    possible = serializers.BooleanField(
        help_text="true: labels differ, no seed is set, or a part was not compared in full"
    )


class AlternativeReply(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(
        choices=[("coarser", "Coarser grid"), ("random", "Random points")],
        help_text=(
            "coarser: every second number of each axis with both ends; "
            "random: points in which each value occurs"
        ),
    )
    runs = serializers.IntegerField()
    new_runs = serializers.IntegerField()
    saved_runs = serializers.IntegerField(help_text="new runs that it avoids")
    saved = TotalsReply()
    values = serializers.DictField(allow_null=True, help_text="values by parameter (coarser)")
    points = serializers.ListField(
        child=serializers.DictField(),
        allow_null=True,
        help_text=f"the first {MAX_LISTED} points (random)",
    )


class SweepReply(serializers.Serializer[Any]):
    """``duplicates`` and ``done`` list the first 200."""

    runs = serializers.IntegerField()
    new_runs = serializers.IntegerField(help_text="without duplicates and finished runs")
    duplicate_runs = serializers.IntegerField(
        allow_null=True, help_text="null: W&B chooses the points while the sweep runs"
    )
    done_runs = serializers.IntegerField(allow_null=True, help_text="null: see unknown")
    possible_runs = serializers.IntegerField(
        allow_null=True, help_text="finished runs that are possible only"
    )
    unknown = serializers.ListField(
        child=serializers.CharField(),
        help_text="what is missing to find finished runs: parts of the base, parameters, or points",
    )
    new_params = serializers.ListField(
        child=serializers.CharField(),
        help_text="swept parameters that the base does not have, so that no run is found by them",
    )
    ends_early = serializers.BooleanField(
        help_text="true: W&B can stop runs early; the totals are of complete runs"
    )
    currency = serializers.CharField(help_text="of the lab; empty: it has none")
    family_runs = serializers.IntegerField(
        allow_null=True, help_text="measured finished runs; null: the family is unknown"
    )
    totals = TotalsReply(help_text="of the new runs")
    duplicates = DuplicateReply(many=True)
    done = DoneReply(many=True)
    alternatives = AlternativeReply(many=True)
