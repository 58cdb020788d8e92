"""API of the duplicate check before a run, and of its outcome."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.choices import Scope
from apps.accounts.permissions import caller
from apps.artifacts.choices import FineTuningMethod, SimilarityBasis
from apps.carbon.figures.visibility import visibility_for
from apps.core.api import StrictSerializer
from apps.core.clock import now_us
from apps.core.errors import Forbidden, InvalidInput
from apps.core.text import is_unstorable
from apps.preflight.choices import Certainty, Level, Outcome, ValueState, Verdict
from apps.preflight.presenters import Requester
from apps.preflight.services.preflight import PreflightRequest, check_duplicates, record_outcome
from apps.runs.choices import EnergyState
from apps.runs.fingerprint_parsing import parse_fingerprint
from apps.runs.serializers import validate_tags_mapping

_TEXT = 200


class CanAskPreflight(BasePermission):
    """Callers who may register or read runs may check for duplicates."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user:
            return False
        if not caller(request).scopes & {Scope.RUNS_WRITE, Scope.RUNS_READ}:
            raise Forbidden(
                "This requires the scope 'runs:write' or 'runs:read'.",
                hint="Ask an admin of your lab.",
            )
        return True


class External(StrictSerializer):
    tool = serializers.CharField(max_length=16)
    value = serializers.CharField(max_length=200)


class PreflightSerializer(StrictSerializer):
    fingerprint = serializers.DictField(help_text="docs/fingerprint.md")
    project = serializers.CharField(
        max_length=60, required=False, allow_null=True, allow_blank=True
    )
    name = serializers.CharField(max_length=_TEXT, required=False, allow_blank=True)
    run = serializers.UUIDField(
        required=False, allow_null=True, help_text="the UUID that the run will have"
    )
    parent = serializers.UUIDField(required=False, allow_null=True)  # type: ignore[assignment]  # DRF moves fields aside
    external = External(required=False, allow_null=True)
    job = serializers.CharField(
        max_length=_TEXT,
        required=False,
        allow_blank=True,
        help_text="scheduler job of the run: <cluster>/<id>",
    )

    tags = serializers.DictField(
        child=serializers.CharField(max_length=1000, allow_blank=True),
        required=False,
        help_text=(
            "tags of the run, name → text; task, family, pipeline_tag and domain select "
            "fine-tuning candidates"
        ),
    )

    def validate_tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        return validate_tags_mapping(tags)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        external = attrs.get("external") or {}
        texts = {name: attrs.get(name) or "" for name in ("project", "name", "job")}
        for name, text in {
            **texts,
            "external": f"{external.get('tool', '')}{external.get('value', '')}",
        }.items():
            if is_unstorable(text):
                raise InvalidInput("Invalid character. Remove it and try again.", field=name)
        return attrs


class Metric(serializers.Serializer[Any]):
    name = serializers.CharField()
    value = serializers.FloatField()


class DifferenceReply(serializers.Serializer[Any]):
    part = serializers.CharField()
    name = serializers.CharField()
    here = serializers.JSONField(
        allow_null=True, help_text="value of the checked run; null: see here_state"
    )
    there = serializers.JSONField(allow_null=True)
    here_state = serializers.ChoiceField(choices=ValueState.choices, allow_null=True)
    there_state = serializers.ChoiceField(choices=ValueState.choices, allow_null=True)


class MatchReply(serializers.Serializer[Any]):
    run = serializers.UUIDField(allow_null=True, help_text="null: you may not see the run")
    url = serializers.CharField(allow_null=True)
    who = serializers.CharField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    state = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    host = serializers.CharField(allow_null=True)
    energy_mj = serializers.IntegerField(allow_null=True, help_text="null: see energy_state")
    energy_state = serializers.ChoiceField(choices=EnergyState.choices)
    emission_ug = serializers.IntegerField(
        allow_null=True, help_text="null: unknown for part of the energy"
    )
    metric = Metric(allow_null=True)
    differs = DifferenceReply(many=True)
    weak = serializers.ListField(
        child=serializers.CharField(), help_text="parts compared by names, sizes and times only"
    )
    labels = serializers.ListField(
        child=serializers.CharField(), help_text="labels that differ, such as run_name"
    )
    not_compared = serializers.ListField(
        child=serializers.CharField(), help_text="what may change the result and was not examined"
    )
    failure = inline_serializer(
        "MatchFailure",
        {"class": serializers.CharField(), "text": serializers.CharField(allow_null=True)},
        allow_null=True,
    )


class AdaptingReply(serializers.Serializer[Any]):
    """The newest 20 measured fine-tuning runs of this lab."""

    basis = serializers.ChoiceField(
        choices=SimilarityBasis.choices,
        help_text="model of these runs: this one, or one with the same architecture or base model",
    )
    runs = serializers.IntegerField()
    energy_mj = serializers.IntegerField(help_text="lower median")
    low_mj = serializers.IntegerField()
    high_mj = serializers.IntegerField()
    emission_ug = serializers.IntegerField(
        allow_null=True, help_text="lower median; null: unknown for one of the runs"
    )


class SavedReply(serializers.Serializer[Any]):
    """Energy that fine-tuning saves. 0: it saves nothing."""

    energy_mj = serializers.IntegerField(help_text="by the median of 'adapting'")
    low_mj = serializers.IntegerField(help_text="by the run with the most energy")
    high_mj = serializers.IntegerField(help_text="by the run with the least energy")
    emission_ug = serializers.IntegerField(
        allow_null=True, help_text="null: unknown for one of the runs"
    )


class WayReply(serializers.Serializer[Any]):
    way = serializers.ChoiceField(
        choices=FineTuningMethod.choices, help_text="fine-tuning method by well-known parameters"
    )
    runs = serializers.IntegerField()
    energy_mj = serializers.IntegerField(help_text="lower median")
    low_mj = serializers.IntegerField()
    high_mj = serializers.IntegerField()
    saved_mj = serializers.IntegerField(
        allow_null=True, help_text="null: the retraining cost is unknown"
    )


class ReuseReply(serializers.Serializer[Any]):
    digest = serializers.CharField()
    name = serializers.CharField()
    url = serializers.CharField()
    why = serializers.CharField(help_text="properties shared with the checked run")
    who = serializers.CharField(
        allow_null=True, help_text="user of the run that produced it; null: no such run"
    )
    licence = serializers.CharField(allow_null=True)
    bytes = serializers.IntegerField()
    metric = Metric(allow_null=True)
    energy_mj = serializers.IntegerField(
        allow_null=True, help_text="retraining cost; null: not measured"
    )
    emission_ug = serializers.IntegerField(allow_null=True)
    adapting = AdaptingReply(
        allow_null=True, help_text="energy of fine-tuning such a model; null: not measured"
    )
    adapted_unmeasured = serializers.IntegerField(
        help_text="unmeasured fine-tuning runs of this model"
    )
    saved = SavedReply(
        allow_null=True,
        help_text="retraining cost less the energy of fine-tuning; null: one of them is unknown",
    )
    ways = WayReply(
        many=True, help_text="the runs of 'adapting' by fine-tuning method, lowest energy first"
    )


class PreflightResponse(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=Verdict.choices)
    certainty = serializers.ChoiceField(choices=Certainty.choices)
    level = serializers.ChoiceField(choices=Level.choices)
    message = serializers.CharField(help_text="one sentence; empty for a silent verdict")
    asked = serializers.UUIDField(help_text="id of this check, for POST preflight/<asked>/outcome/")
    matches = MatchReply(many=True)
    estimate = inline_serializer(
        "EstimateReply",
        {
            "runs": serializers.IntegerField(help_text="measured finished runs of the same recipe"),
            "energy_mj": serializers.IntegerField(help_text="lower median"),
            "low_mj": serializers.IntegerField(),
            "high_mj": serializers.IntegerField(),
            "emission_ug": serializers.IntegerField(allow_null=True),
        },
        allow_null=True,
    )
    unknown = serializers.ListField(
        child=serializers.CharField(), help_text="parts of the checked run that are not compared"
    )
    reuse = ReuseReply(many=True, help_text="fine-tuning candidates")


class PreflightView(APIView):
    permission_classes = (CanAskPreflight,)

    @extend_schema(
        request=PreflightSerializer, responses=PreflightResponse, operation_id="preflight"
    )
    def post(self, request: Request) -> Response:
        """Check whether a run is a duplicate, is running now, or will fail (docs/duplicates.md)."""
        body = PreflightSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        data, who = body.validated_data, caller(request)
        external = data.get("external")
        payload = PreflightRequest(
            fingerprint=parse_fingerprint(data["fingerprint"]),
            project=data.get("project"),
            name=data.get("name", ""),
            run=data.get("run"),
            parent=data.get("parent"),
            job=data.get("job", ""),
            tags=data.get("tags", {}),
            external=(external["tool"], external["value"]) if external else None,
        )
        requester = Requester(
            who.user, visibility_for(who.lab, who.user), Scope.RUNS_READ in who.scopes
        )
        return Response(
            check_duplicates(
                lab=who.lab,
                payload=payload,
                requester=requester,
                node_uuid=who.node_uuid,
                now=now_us(),
            )
        )


class OutcomeField(serializers.ChoiceField):
    """The outcome of a check. Input may use ``proceeded`` for ``went_on``; output does not
    change.
    """

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value(Outcome.PROCEEDED.value if data == "proceeded" else data)


class OutcomeBody(StrictSerializer):
    outcome = OutcomeField(
        choices=Outcome.choices, help_text="input also accepts proceeded, for went_on"
    )


class OutcomeView(APIView):
    permission_classes = (CanAskPreflight,)

    @extend_schema(request=OutcomeBody, responses=OutcomeBody, operation_id="preflight_outcome")
    def post(self, request: Request, uuid: UUID) -> Response:
        """Report whether the run was stopped after the check, or proceeded. Idempotent."""
        body = OutcomeBody(data=request.data)
        body.is_valid(raise_exception=True)
        who, outcome = caller(request), Outcome(body.validated_data["outcome"])
        stored = record_outcome(
            lab=who.lab,
            uuid=uuid,
            outcome=outcome,
            by=who.user,
            node_uuid=who.node_uuid,
            now=now_us(),
        )
        return Response({"outcome": stored.outcome})
