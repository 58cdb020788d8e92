"""Body and response of POST plan/job/."""

from typing import Any

from rest_framework import serializers

from apps.core.api import StrictSerializer
from apps.planner.choices import Basis, Precision, ServingBasis, Trainable

_MAX_COUNT = 10**15


def _count(*, maximum: int = _MAX_COUNT, help_text: str = "") -> serializers.IntegerField:
    return serializers.IntegerField(
        min_value=1, max_value=maximum, required=False, allow_null=True, help_text=help_text
    )


class CostsBody(serializers.Serializer[Any]):
    """Model costs as ``labcarbon-collect plan --model`` and ``POST plan/onnx/`` return them. Other
    keys are not needed.
    """

    name = serializers.CharField(max_length=200, required=False, default="model")
    input = serializers.CharField(max_length=200, required=False, default="")
    parameters = serializers.IntegerField(min_value=0, max_value=_MAX_COUNT)
    macs = serializers.IntegerField(min_value=1, max_value=10**18, help_text="of one sample")
    layer_outputs = serializers.IntegerField(
        min_value=0, max_value=_MAX_COUNT, required=False, default=0
    )
    source = serializers.CharField(max_length=200, required=False, default="", allow_blank=True)  # type: ignore[assignment]  # a field of this name


class LayersBody(StrictSerializer):
    text = serializers.CharField(max_length=64 * 1024, trim_whitespace=False)
    input = serializers.CharField(max_length=200, help_text="3x224x224, 512 tokens")


class ModelBody(StrictSerializer):
    preset = serializers.CharField(max_length=60, required=False)
    costs = CostsBody(required=False)
    layers = LayersBody(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs) != 1:
            raise serializers.ValidationError("Give one of preset, costs and layers.")
        return attrs


class TrainingBody(StrictSerializer):
    trainable = serializers.ChoiceField(Trainable.choices, default=Trainable.FULL)
    precision = serializers.ChoiceField(Precision.choices, default=Precision.FP32)
    checkpointing = serializers.BooleanField(default=False)
    gpus = _count(maximum=100_000, help_text="null: as past runs, else 1")


class WorkBody(StrictSerializer):
    samples = _count(help_text="of an epoch")
    epochs = _count(maximum=10**9)
    steps = _count(help_text="of the whole training, in place of epochs")
    batch = _count(maximum=10**9, help_text="samples of a step, over all GPUs")
    stops_early = serializers.BooleanField(
        default=False, help_text="epochs or steps are the expected ones, not fixed"
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("epochs") and attrs.get("steps"):
            raise serializers.ValidationError({"steps": "Give epochs or steps, not both."})
        return attrs


class PlaceBody(StrictSerializer):
    node = serializers.UUIDField(required=False, allow_null=True)
    site = serializers.IntegerField(
        min_value=1,
        max_value=2**63 - 1,
        help_text="number of a site, without a node",
        required=False,
        allow_null=True,
    )
    gpu = serializers.CharField(
        max_length=200,
        help_text="name of the GPU; left out: of the node",
        required=False,
        allow_null=True,
    )


class ProbeStepsBody(serializers.Serializer[Any]):
    measured = serializers.IntegerField(min_value=1, max_value=_MAX_COUNT)
    mean_us = serializers.IntegerField(min_value=1, max_value=_MAX_COUNT)
    first_epoch_us = _count(help_text="mean µs a step in the first epoch, if a later one was seen")
    variation_ppm = serializers.IntegerField(min_value=0, max_value=10**9, default=0)
    startup_us = serializers.IntegerField(min_value=0, max_value=_MAX_COUNT, default=0)
    epoch_steps = _count()
    evaluations_us = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=_MAX_COUNT),
        max_length=1000,
        required=False,
        default=list,
    )
    evaluation_steps = _count()


class PowerBody(serializers.Serializer[Any]):
    mean = serializers.IntegerField(min_value=0, max_value=10**12)


class ProbePowerBody(serializers.Serializer[Any]):
    gpu = PowerBody(help_text="of the GPUs", required=False, allow_null=True)
    run = PowerBody(
        help_text="of the command on all devices of its node", required=False, allow_null=True
    )


class ProbeBody(serializers.Serializer[Any]):
    """The result of ``labcarbon-collect plan --probe``. Other keys are not needed."""

    measured_us = serializers.IntegerField(min_value=0, max_value=_MAX_COUNT)
    steps = ProbeStepsBody(required=False, allow_null=True)
    power_mw = ProbePowerBody(required=False)


class ServingBody(StrictSerializer):
    requests_per_day = serializers.IntegerField(min_value=1, max_value=10**12)
    run = serializers.UUIDField(
        help_text="a service run of the lab that counted its requests",
        required=False,
        allow_null=True,
    )
    benchmark = serializers.CharField(
        max_length=40,
        help_text="of MLPerf Inference, without a service run",
        required=False,
        allow_null=True,
    )


class JobBody(StrictSerializer):
    model = ModelBody(required=False, allow_null=True)
    training = TrainingBody(required=False)
    work = WorkBody(required=False)
    place = PlaceBody(required=False)
    project = serializers.CharField(max_length=60, required=False, allow_null=True)
    fingerprint = serializers.DictField(
        help_text="docs/fingerprint.md", required=False, allow_null=True
    )
    like_run = serializers.UUIDField(
        help_text="a past run, whose fingerprint is used without an own one",
        required=False,
        allow_null=True,
    )
    probe = ProbeBody(required=False, allow_null=True)
    serving = ServingBody(required=False, allow_null=True)
    store = serializers.BooleanField(
        default=False, help_text="store the estimate for a run; needs the scope runs:write"
    )


class RangeReply(serializers.Serializer[Any]):
    low = serializers.IntegerField(help_text="P10")
    likely = serializers.IntegerField()
    high = serializers.IntegerField(help_text="P90")


class FactorReply(serializers.Serializer[Any]):
    ug_per_kwh = serializers.IntegerField()
    name = serializers.CharField()
    id = serializers.IntegerField(allow_null=True)
    edition = serializers.IntegerField(allow_null=True)
    basis = serializers.CharField(allow_null=True)


class PriceReply(serializers.Serializer[Any]):
    ucurrency_per_kwh = serializers.IntegerField()
    currency = serializers.CharField()
    id = serializers.IntegerField(allow_null=True)
    is_mean = serializers.BooleanField(help_text="mean of the coming 7 days")


class ConditionsReply(serializers.Serializer[Any]):
    site = serializers.CharField(allow_null=True)
    pue_ppm = serializers.IntegerField(allow_null=True)
    factor = FactorReply(allow_null=True)
    price = PriceReply(allow_null=True)
    factor_missing = serializers.CharField(help_text="why the factor is unknown, or empty")
    price_missing = serializers.CharField(help_text="why the price is unknown, or empty")


class ServingReply(serializers.Serializer[Any]):
    basis = serializers.ChoiceField(ServingBasis.choices)
    source = serializers.CharField()  # type: ignore[assignment]  # a field of this name
    monthly_energy_mj = RangeReply(allow_null=True)
    monthly_emission_ug = RangeReply(allow_null=True)
    monthly_cost_ucurrency = RangeReply(allow_null=True)
    missing = serializers.CharField(help_text="why there is no basis, or empty")


class JobReply(serializers.Serializer[Any]):
    estimate = serializers.UUIDField(
        allow_null=True, help_text="of a stored estimate, for run --estimate; null: not stored"
    )
    expires_at = serializers.DateTimeField(allow_null=True)
    basis = serializers.ChoiceField(Basis.choices)
    facts = serializers.DictField(help_text="what it rests on, such as the number of runs")
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="without a basis: what would give one"
    )
    is_order_of_magnitude = serializers.BooleanField(help_text="state the range as ×÷")
    time_us = RangeReply(allow_null=True)
    reserve_us = serializers.IntegerField(
        allow_null=True, help_text="wall time to reserve: P90 in whole minutes"
    )
    gpu_energy_mj = RangeReply(allow_null=True, help_text="of the GPUs")
    node_energy_mj = RangeReply(allow_null=True, help_text="of the run, all devices of its node")
    emission_ug = RangeReply(allow_null=True)
    cost_ucurrency = RangeReply(allow_null=True)
    currency = serializers.CharField(allow_null=True)
    conditions = ConditionsReply()
    serving = ServingReply(allow_null=True)
