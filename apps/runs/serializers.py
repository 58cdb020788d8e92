"""Bodies of PUT and PATCH runs/<uuid>/: what is checked before anything is done."""

import math
from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.api import StrictSerializer
from apps.core.clock import utc
from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX
from apps.runs.choices import AttributionSource, Failure, Intent, RunState, Source
from apps.runs.fingerprint_parsing import parse_fingerprint
from apps.runs.models import Fingerprint, Metric, Run
from apps.runs.selectors import Siblings
from apps.runs.services.updates import MAX_TAGS, External, FailureIn, RunUpdate

_MAX_PARAMS = 500


def validate_tags_mapping(tags: dict[str, Any]) -> dict[str, Any]:
    """Return tags if they are few and have names. Raises ValidationError."""
    if len(tags) > MAX_TAGS:
        raise serializers.ValidationError(f"At most {MAX_TAGS} tags.")
    for name in tags:
        if not name or len(name) > 200 or is_unstorable(name):
            raise serializers.ValidationError(
                f"{name[:50]!r}: a tag's name is 1 to 200 characters that can be stored."
            )
    return tags


class ExternalBody(StrictSerializer):
    tool = serializers.RegexField(
        r"^[a-z0-9_-]{1,16}\Z",
        error_messages={"invalid": "A tool is named by 1 to 16 of a–z, 0–9, _ and -."},
    )
    value = serializers.CharField(max_length=200)


class FailureBody(StrictSerializer):
    point = serializers.RegexField(
        r"^[0-9a-f]{8,64}\Z",
        required=False,
        error_messages={"invalid": "A point is 8 to 64 hex digits in small letters."},
    )
    text = serializers.CharField(max_length=16_000, required=False, allow_blank=True)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            "class": serializers.ChoiceField(choices=Failure.choices, required=False),
            **super().get_fields(),
        }


class RunUpdateSerializer(StrictSerializer):
    """Fields that both PUT and PATCH accept."""

    fingerprint = serializers.DictField(
        required=False, allow_null=True, help_text="docs/fingerprint.md"
    )
    intent = serializers.ChoiceField(choices=Intent.choices, required=False)
    sweep = serializers.CharField(max_length=100, required=False, allow_blank=True)
    parent = serializers.UUIDField(required=False, allow_null=True)  # type: ignore[assignment]  # declared, no attribute
    tags = serializers.DictField(
        child=serializers.CharField(max_length=1000, allow_blank=True, allow_null=True),
        required=False,
        help_text=f"name → text, at most {MAX_TAGS}; null removes a tag",
    )
    external = ExternalBody(required=False, allow_null=True)

    def validate_tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        return validate_tags_mapping(tags)

    def to_update(self) -> RunUpdate:
        """Return the update of a run. Raises InvalidInput for an invalid fingerprint."""
        data = self.validated_data
        external, failure = data.get("external"), data.get("failure")
        return RunUpdate(
            fingerprint=parse_fingerprint(data["fingerprint"])
            if data.get("fingerprint") is not None
            else None,
            intent=data.get("intent"),
            sweep=data.get("sweep"),
            parent=data.get("parent"),
            tags=data.get("tags", {}),
            external=External(external["tool"], external["value"]) if external else None,
            failure=FailureIn(
                failure.get("class", ""), failure.get("point", ""), failure.get("text", "")
            )
            if failure
            else None,
        )


class RunBody(RunUpdateSerializer):
    name = serializers.CharField(max_length=200)
    started_at = serializers.DateTimeField()
    project = serializers.CharField(max_length=60, required=False, allow_null=True)
    command = serializers.ListField(
        child=serializers.CharField(max_length=256), max_length=64, required=False
    )
    params = serializers.DictField(required=False)
    node = serializers.UUIDField(required=False, allow_null=True)
    user = serializers.CharField(max_length=100, required=False, allow_blank=True)
    host = serializers.CharField(max_length=255, required=False, allow_blank=True)
    job = serializers.DictField(
        required=False, allow_null=True, help_text="job of the scheduler: docs/slurm.md"
    )
    estimate = serializers.UUIDField(
        required=False,
        allow_null=True,
        help_text="a stored estimate of this run; one that cannot be attached gives a warning",
    )

    def validate_params(self, params: dict[str, Any]) -> dict[str, Any]:
        if len(params) > _MAX_PARAMS:
            raise serializers.ValidationError(f"At most {_MAX_PARAMS} parameters.")
        for name, value in params.items():
            if isinstance(value, dict | list) or len(str(name)) > 256 or len(str(value)) > 1024:
                raise serializers.ValidationError(
                    f"{name!r}: a parameter is one text, number, true, false or null."
                )
            if isinstance(value, float) and not math.isfinite(value):
                raise serializers.ValidationError(
                    f"{name!r}: the number is beyond what can be stored."
                )
            if is_unstorable(f"{name}{value}"):
                raise serializers.ValidationError(
                    f"{name!r}: NUL and half characters cannot be stored."
                )
        return params


class RunChange(RunUpdateSerializer):
    state = serializers.ChoiceField(
        choices=[each for each in RunState.choices if each[0] != RunState.LOST], required=False
    )
    ended_at = serializers.DateTimeField(required=False, allow_null=True)
    exit_code = serializers.IntegerField(
        required=False, allow_null=True, min_value=-255, max_value=255
    )
    energy_mj = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=INT64_MAX
    )
    provisional = serializers.BooleanField(required=False)
    job = serializers.DictField(
        required=False, allow_null=True, help_text="state, exit and consumed_energy_j of the job"
    )
    failure = FailureBody(required=False, allow_null=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError(
                {"state": ["Say what changed: state, fingerprint, tags, failure …"]}
            )
        return attrs


_TEXT = {"type": "string", "nullable": True}


class RunReply(serializers.ModelSerializer[Run]):
    """A run in a response. Its energy is available at /figures/ with subject=run:<uuid>."""

    project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    charged_project = serializers.SlugRelatedField[Any](
        slug_field="slug", read_only=True, allow_null=True
    )
    node = serializers.SlugRelatedField[Any](slug_field="uuid", read_only=True, allow_null=True)
    parent = serializers.SerializerMethodField()  # type: ignore[assignment]  # declared fields are no attributes
    charge_way = serializers.ChoiceField(
        source="attributed_by", choices=AttributionSource.choices, required=False, allow_blank=True
    )
    teller = serializers.ChoiceField(
        source="reported_by", choices=Source.choices, required=False, allow_blank=True
    )
    os_user = serializers.SerializerMethodField()
    started_at = serializers.SerializerMethodField()
    ended_at = serializers.SerializerMethodField()
    seen_at = serializers.SerializerMethodField()
    warning = serializers.SerializerMethodField()

    class Meta:
        model = Run
        fields: tuple[str, ...] = (
            "uuid", "name", "project", "charged_project", "charge_way", "node", "os_user", "host",
            "scheduler", "cluster", "job_id", "account", "partition", "job_facts", "command",
            "params", "state", "started_at", "ended_at", "seen_at", "exit_code",
            "reported_energy_mj", "teller", "intent", "sweep", "parent", "tags", "failure",
            "failure_point", "failure_text", "warning",
        )  # fmt: skip

    @extend_schema_field({**_TEXT, "description": "null: you may not see it"})
    def get_os_user(self, run: Run) -> str | None:
        return run.os_user if self.context["sees"](run.user_id) else None

    @extend_schema_field(
        {**_TEXT, "format": "uuid", "description": "may name a run that is not registered yet"}
    )
    def get_parent(self, run: Run) -> str | None:
        uuid = run.parent.uuid if run.parent is not None else run.requested_parent
        return str(uuid) if uuid else None

    def get_started_at(self, run: Run) -> str:
        return utc(run.started_us).isoformat()

    def get_ended_at(self, run: Run) -> str | None:
        return utc(run.ended_us).isoformat() if run.ended_us is not None else None

    @extend_schema_field(
        {**_TEXT, "description": "time of the last report; null: imported as a past run"}
    )
    def get_seen_at(self, run: Run) -> str | None:
        return utc(run.last_report_us).isoformat() if run.last_report_us is not None else None

    def get_warning(self, run: Run) -> str:
        return str(self.context.get("warning", ""))


def metric_summary(row: Metric) -> dict[str, Any]:
    """Return a metric's name, number of points, latest value and extremes."""
    return {
        "name": row.name,
        "count": row.count,
        "last_step": row.last_step,
        "last": row.last_value,
        "least": row.min_value,
        "greatest": row.max_value,
    }


def present_fingerprint(row: Fingerprint | None) -> dict[str, Any] | None:
    """Return a stored fingerprint with the state of each part; None if there is none."""
    if row is None:
        return None
    parts = {
        "code": _state(row.code, row.code_weak),
        "params": "unknown" if row.params is None else "verified",
        "data": _state(row.data, row.data_weak),
        "start": _state(row.start, row.start_weak),
        "seeds": "unknown" if row.seeds is None else "verified" if row.seeds else "unset",
    }
    hashes = {
        name: getattr(row, name)
        for name in (
            "entry",
            "code",
            "code_weak",
            "code_normal",
            "recipe",
            "data",
            "data_weak",
            "start",
            "start_weak",
        )
    }
    names = (
        "version",
        "entry_name",
        "commit",
        "dirty",
        "params",
        "told",
        "dropped",
        "seeds",
        "data_items",
        "start_name",
        "environment",
        "hardware",
    )
    return {"parts": parts, "hashes": hashes, **{name: getattr(row, name) for name in names}}


def _state(verified: str, weak: str) -> str:
    return "verified" if verified else "weak" if weak else "unknown"


_COUNT = {"type": "integer", "minimum": 0}


class RunDetail(RunReply):
    """One run with its fingerprint, metrics and related runs."""

    external_ids = serializers.SerializerMethodField()
    children = serializers.SerializerMethodField()
    siblings = serializers.SerializerMethodField()
    fingerprint = serializers.SerializerMethodField()
    metrics = serializers.SerializerMethodField()

    class Meta(RunReply.Meta):
        fields = (
            *RunReply.Meta.fields,
            "external_ids",
            "children",
            "siblings",
            "fingerprint",
            "metrics",
        )

    def get_external_ids(self, run: Run) -> list[dict[str, str]]:
        return [{"tool": row.tool, "value": row.value} for row in run.external_ids.order_by("pk")]

    @extend_schema_field(
        {
            "type": "object",
            "properties": {
                "count": _COUNT,
                "first": {"type": "array", "items": {"type": "string"}},
            },
            "description": "how many runs name this one as parent, and the UUIDs of the first 100",
        }
    )
    def get_children(self, run: Run) -> dict[str, Any]:
        first = [
            str(uuid)
            for uuid in run.children.order_by("started_us", "pk").values_list("uuid", flat=True)[
                :100
            ]
        ]
        return {"count": run.children.count(), "first": first}

    @extend_schema_field(
        {
            "type": "object",
            "additionalProperties": _COUNT,
            "description": (
                "other runs of the lab that share a tier with this one, each counted up to 1000"
            ),
        }
    )
    def get_siblings(self, run: Run) -> dict[str, int]:
        siblings: Siblings = self.context["siblings"]
        return siblings.counts

    @extend_schema_field(
        {"type": "object", "nullable": True, "description": "parts, their states and hashes"}
    )
    def get_fingerprint(self, run: Run) -> dict[str, Any] | None:
        return present_fingerprint(getattr(run, "fingerprint", None))

    @extend_schema_field({"type": "array", "items": {"type": "object"}})
    def get_metrics(self, run: Run) -> list[dict[str, Any]]:
        return [metric_summary(row) for row in run.metrics.order_by("name")]


CanSee = Callable[[int | None], bool]
