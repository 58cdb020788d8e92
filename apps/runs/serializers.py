"""Bodies of PUT and PATCH runs/<uuid>/: what is checked before anything is done."""

import math
from typing import Any

from rest_framework import serializers

from apps.core.api import StrictSerializer
from apps.core.text import unstorable
from apps.core.units import INT64_MAX
from apps.runs.choices import Failure, Intent, RunState
from apps.runs.fingerprint_parsing import parse_fingerprint
from apps.runs.services.updates import MAX_TAGS, External, FailureIn, Known

_MAX_PARAMS = 500


def checked_tags(tags: dict[str, Any]) -> dict[str, Any]:
    """Return tags if they are few and have names. Raises ValidationError."""
    if len(tags) > MAX_TAGS:
        raise serializers.ValidationError(f"At most {MAX_TAGS} tags.")
    for name in tags:
        if not name or len(name) > 200 or unstorable(name):
            raise serializers.ValidationError(f"{name[:50]!r}: a tag's name is 1 to 200 characters that can be stored.")
    return tags


class ExternalBody(StrictSerializer):
    tool = serializers.RegexField(
        r"^[a-z0-9_-]{1,16}\Z", error_messages={"invalid": "A tool is named by 1 to 16 of a–z, 0–9, _ and -."}
    )
    value = serializers.CharField(max_length=200)


class FailureBody(StrictSerializer):
    point = serializers.RegexField(
        r"^[0-9a-f]{8,64}\Z", required=False, error_messages={"invalid": "A point is 8 to 64 hex digits in small letters."}
    )
    text = serializers.CharField(max_length=16_000, required=False, allow_blank=True)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {"class": serializers.ChoiceField(choices=Failure.choices, required=False), **super().get_fields()}


class KnownBody(StrictSerializer):
    """What PUT and PATCH may both tell."""

    fingerprint = serializers.DictField(required=False, allow_null=True, help_text="docs/fingerprint.md")
    intent = serializers.ChoiceField(choices=Intent.choices, required=False)
    sweep = serializers.CharField(max_length=100, required=False, allow_blank=True)
    parent = serializers.UUIDField(required=False, allow_null=True)  # type: ignore[assignment]  # declared, no attribute
    tags = serializers.DictField(
        child=serializers.CharField(max_length=1000, allow_blank=True, allow_null=True), required=False,
        help_text=f"name → text, at most {MAX_TAGS}; null takes one away",
    )  # fmt: skip
    external = ExternalBody(required=False, allow_null=True)

    def validate_tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        return checked_tags(tags)

    def known(self) -> Known:
        """Return what was told. Raises InvalidInput for a fingerprint that is none."""
        data = self.validated_data
        external, failure = data.get("external"), data.get("failure")
        return Known(
            fingerprint=parse_fingerprint(data["fingerprint"]) if data.get("fingerprint") is not None else None,
            intent=data.get("intent"),
            sweep=data.get("sweep"),
            parent=data.get("parent"),
            tags=data.get("tags", {}),
            external=External(external["tool"], external["value"]) if external else None,
            failure=FailureIn(failure.get("class", ""), failure.get("point", ""), failure.get("text", ""))
            if failure
            else None,
        )


class RunBody(KnownBody):
    name = serializers.CharField(max_length=200)
    started_at = serializers.DateTimeField()
    project = serializers.CharField(max_length=60, required=False, allow_null=True)
    command = serializers.ListField(child=serializers.CharField(max_length=256), max_length=64, required=False)
    params = serializers.DictField(required=False)
    node = serializers.UUIDField(required=False, allow_null=True)
    user = serializers.CharField(max_length=100, required=False, allow_blank=True)
    host = serializers.CharField(max_length=255, required=False, allow_blank=True)
    job = serializers.DictField(required=False, allow_null=True, help_text="the scheduler's job: docs/slurm.md")

    def validate_params(self, params: dict[str, Any]) -> dict[str, Any]:
        if len(params) > _MAX_PARAMS:
            raise serializers.ValidationError(f"At most {_MAX_PARAMS} parameters.")
        for name, value in params.items():
            if isinstance(value, dict | list) or len(str(name)) > 256 or len(str(value)) > 1024:
                raise serializers.ValidationError(f"{name!r}: a parameter is one text, number, true, false or null.")
            if isinstance(value, float) and not math.isfinite(value):
                raise serializers.ValidationError(f"{name!r}: the number is beyond what can be stored.")
            if unstorable(f"{name}{value}"):
                raise serializers.ValidationError(f"{name!r}: NUL and half characters cannot be stored.")
        return params


class RunChange(KnownBody):
    state = serializers.ChoiceField(choices=[each for each in RunState.choices if each[0] != RunState.LOST], required=False)
    ended_at = serializers.DateTimeField(required=False, allow_null=True)
    exit_code = serializers.IntegerField(required=False, allow_null=True, min_value=-255, max_value=255)
    energy_mj = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=INT64_MAX)
    provisional = serializers.BooleanField(required=False)
    job = serializers.DictField(required=False, allow_null=True, help_text="state, exit, consumed_energy_j of its job")
    failure = FailureBody(required=False, allow_null=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError({"state": ["Say what changed: state, fingerprint, tags, failure …"]})
        return attrs
