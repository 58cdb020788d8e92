"""Runs as told to others."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.clock import utc
from apps.runs.models import Fingerprint, Metric, Run
from apps.runs.selectors import Siblings

_TEXT = {"type": "string", "nullable": True}


class RunReply(serializers.ModelSerializer[Run]):
    """A run as told to others. Its energy is asked from /figures/ with subject=run:<uuid>."""

    project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    charged_project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    node = serializers.SlugRelatedField[Any](slug_field="uuid", read_only=True, allow_null=True)
    parent = serializers.SerializerMethodField()  # type: ignore[assignment]  # declared fields are no attributes
    os_user = serializers.SerializerMethodField()
    started_at = serializers.SerializerMethodField()
    ended_at = serializers.SerializerMethodField()
    seen_at = serializers.SerializerMethodField()
    warning = serializers.SerializerMethodField()

    class Meta:
        model = Run
        fields: tuple[str, ...] = (
            "uuid", "name", "project", "charged_project", "charge_way", "node", "os_user", "host",
            "scheduler", "cluster", "job_id", "account", "partition", "job_facts", "command", "params", "state",
            "started_at", "ended_at", "seen_at", "exit_code", "reported_energy_mj", "teller", "intent", "sweep", "parent",
            "tags", "failure", "failure_point", "failure_text", "warning",
        )  # fmt: skip

    @extend_schema_field({**_TEXT, "description": "null: not yours to know"})
    def get_os_user(self, run: Run) -> str | None:
        return run.os_user if self.context["sees"](run.user_id) else None

    @extend_schema_field({**_TEXT, "format": "uuid", "description": "also one that is not told of yet"})
    def get_parent(self, run: Run) -> str | None:
        uuid = run.parent.uuid if run.parent is not None else run.parent_asked
        return str(uuid) if uuid else None

    def get_started_at(self, run: Run) -> str:
        return utc(run.started_us).isoformat()

    def get_ended_at(self, run: Run) -> str | None:
        return utc(run.ended_us).isoformat() if run.ended_us is not None else None

    @extend_schema_field({**_TEXT, "description": "when the last word of it came; null: told of as a record of the past"})
    def get_seen_at(self, run: Run) -> str | None:
        return utc(run.seen_us).isoformat() if run.seen_us is not None else None

    def get_warning(self, run: Run) -> str:
        return str(self.context.get("warning", ""))


def metric_summary(row: Metric) -> dict[str, Any]:
    """Return a metric's name, how many points are kept, its last word and extremes."""
    return {
        "name": row.name, "count": row.count, "last_step": row.last_step, "last": row.last_value, "least": row.least,
        "greatest": row.greatest,
    }  # fmt: skip


def fingerprint_told(row: Fingerprint | None) -> dict[str, Any] | None:
    """Return a stored fingerprint with the state of each part; None: nothing is known."""
    if row is None:
        return None
    parts = {
        "code": _state(row.code, row.code_weak),
        "params": "unknown" if row.params is None else "verified",
        "data": _state(row.data, row.data_weak),
        "start": _state(row.start, row.start_weak),
        "seeds": "unknown" if row.seeds is None else "verified" if row.seeds else "unset",
    }
    hashes = {name: getattr(row, name) for name in (
        "entry", "code", "code_weak", "code_normal", "recipe", "data", "data_weak", "start", "start_weak",
    )}  # fmt: skip
    names = ("version", "entry_name", "commit", "dirty", "params", "told", "dropped", "seeds", "data_items", "start_name",
             "environment", "hardware")  # fmt: skip
    return {"parts": parts, "hashes": hashes, **{name: getattr(row, name) for name in names}}


def _state(verified: str, weak: str) -> str:
    return "verified" if verified else "weak" if weak else "unknown"


_COUNT = {"type": "integer", "minimum": 0}


class RunDetail(RunReply):
    """One run with all that is known of it."""

    external_ids = serializers.SerializerMethodField()
    children = serializers.SerializerMethodField()
    siblings = serializers.SerializerMethodField()
    fingerprint = serializers.SerializerMethodField()
    metrics = serializers.SerializerMethodField()

    class Meta(RunReply.Meta):
        fields = (*RunReply.Meta.fields, "external_ids", "children", "siblings", "fingerprint", "metrics")

    def get_external_ids(self, run: Run) -> list[dict[str, str]]:
        return [{"tool": row.tool, "value": row.value} for row in run.external_ids.order_by("pk")]

    @extend_schema_field({
        "type": "object", "properties": {"count": _COUNT, "first": {"type": "array", "items": {"type": "string"}}},
        "description": "how many runs name this one as parent, and the UUIDs of the first 100",
    })  # fmt: skip
    def get_children(self, run: Run) -> dict[str, Any]:
        first = [str(uuid) for uuid in run.children.order_by("started_us", "pk").values_list("uuid", flat=True)[:100]]
        return {"count": run.children.count(), "first": first}

    @extend_schema_field({
        "type": "object", "additionalProperties": _COUNT,
        "description": "other runs of the lab that share a tier with this one, each counted up to 1000",
    })  # fmt: skip
    def get_siblings(self, run: Run) -> dict[str, int]:
        found: Siblings = self.context["siblings"]
        return found.counts

    @extend_schema_field({"type": "object", "nullable": True, "description": "parts, their states and hashes"})
    def get_fingerprint(self, run: Run) -> dict[str, Any] | None:
        return fingerprint_told(getattr(run, "fingerprint", None))

    @extend_schema_field({"type": "array", "items": {"type": "object"}})
    def get_metrics(self, run: Run) -> list[dict[str, Any]]:
        return [metric_summary(row) for row in run.metrics.order_by("name")]


Sees = Callable[[int | None], bool]
