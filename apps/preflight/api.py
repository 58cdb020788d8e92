"""Preflight over the API: one question before a run, and what its asker did with the answer."""

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
from apps.preflight.choices import Certainty, Level, Outcome, Verdict
from apps.preflight.presenters import Requester
from apps.preflight.services.preflight import PreflightRequest, check_duplicates, record_outcome
from apps.runs.api import PackedJSONParser
from apps.runs.fingerprint_parsing import parse_fingerprint
from apps.runs.serializers import validate_tags_mapping

_TEXT = 200


class CanAskPreflight(BasePermission):
    """Whoever may register runs or read them may ask."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user:
            return False
        if not caller(request).scopes & {Scope.RUNS_WRITE, Scope.RUNS_READ}:
            raise Forbidden("This needs the right 'runs:write' or 'runs:read', which you do not have.", hint="Ask an admin.")
        return True


class External(StrictSerializer):
    tool = serializers.CharField(max_length=16)
    value = serializers.CharField(max_length=200)


class PreflightSerializer(StrictSerializer):
    fingerprint = serializers.DictField(help_text="docs/fingerprint.md")
    project = serializers.CharField(max_length=60, required=False, allow_null=True, allow_blank=True)
    name = serializers.CharField(max_length=_TEXT, required=False, allow_blank=True)
    run = serializers.UUIDField(required=False, allow_null=True, help_text="the UUID that the run will have")
    parent = serializers.UUIDField(required=False, allow_null=True)  # type: ignore[assignment]  # DRF moves fields aside
    external = External(required=False, allow_null=True)
    job = serializers.CharField(
        max_length=_TEXT, required=False, allow_blank=True, help_text="<cluster>/<id> of the scheduler's job it works in"
    )

    tags = serializers.DictField(
        child=serializers.CharField(max_length=1000, allow_blank=True), required=False,
        help_text="name → text, as the run will have them: task, family, pipeline_tag and domain say what it is for",
    )  # fmt: skip

    def validate_tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        return validate_tags_mapping(tags)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        external = attrs.get("external") or {}
        texts = {name: attrs.get(name) or "" for name in ("project", "name", "job")}
        for name, text in {**texts, "external": f"{external.get('tool', '')}{external.get('value', '')}"}.items():
            if is_unstorable(text):
                raise InvalidInput("NUL and half characters cannot be stored.", field=name)
        return attrs


class Metric(serializers.Serializer[Any]):
    name = serializers.CharField()
    value = serializers.FloatField()


class DifferenceReply(serializers.Serializer[Any]):
    part = serializers.CharField()
    name = serializers.CharField()
    here = serializers.JSONField(allow_null=True, help_text="the value asked about; null: not there, or not told")
    there = serializers.JSONField(allow_null=True)


class MatchReply(serializers.Serializer[Any]):
    run = serializers.UUIDField(allow_null=True, help_text="null: not yours to know")
    url = serializers.CharField(allow_null=True)
    who = serializers.CharField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    state = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    host = serializers.CharField(allow_null=True)
    energy_mj = serializers.IntegerField(allow_null=True, help_text="null: not measured")
    emission_ug = serializers.IntegerField(allow_null=True, help_text="null: not known for all of the energy")
    metric = Metric(allow_null=True)
    differs = DifferenceReply(many=True)
    weak = serializers.ListField(child=serializers.CharField(), help_text="parts compared by names, sizes and times only")
    failure = inline_serializer(
        "MatchFailure",
        {"class": serializers.CharField(), "text": serializers.CharField(allow_null=True)},
        allow_null=True,
    )


class AdaptingReply(serializers.Serializer[Any]):
    """Finished runs of this lab that began from such a model and made another, the newest 20 that were measured."""

    basis = serializers.ChoiceField(
        choices=SimilarityBasis.choices,
        help_text="what they adapted or made: this model, else one of its architecture or base model",
    )
    runs = serializers.IntegerField()
    energy_mj = serializers.IntegerField(help_text="their lower median")
    low_mj = serializers.IntegerField()
    high_mj = serializers.IntegerField()
    emission_ug = serializers.IntegerField(allow_null=True, help_text="their lower median; null: that of one is not known")


class SavedReply(serializers.Serializer[Any]):
    """0: adapting took as much as making, or more."""

    energy_mj = serializers.IntegerField(help_text="by the median of 'adapting'")
    low_mj = serializers.IntegerField(help_text="by the run that took most")
    high_mj = serializers.IntegerField(help_text="by the run that took least")
    emission_ug = serializers.IntegerField(allow_null=True, help_text="null: that of one of the runs is not known")


class WayReply(serializers.Serializer[Any]):
    way = serializers.ChoiceField(choices=FineTuningMethod.choices, help_text="as parameters of well-known names tell it")
    runs = serializers.IntegerField()
    energy_mj = serializers.IntegerField(help_text="their lower median")
    low_mj = serializers.IntegerField()
    high_mj = serializers.IntegerField()
    saved_mj = serializers.IntegerField(allow_null=True, help_text="null: what making the model took is not known")


class ReuseReply(serializers.Serializer[Any]):
    digest = serializers.CharField()
    name = serializers.CharField()
    url = serializers.CharField()
    why = serializers.CharField(help_text="what it shares with the work asked about")
    who = serializers.CharField(allow_null=True, help_text="whose run made it; null: no run is known")
    licence = serializers.CharField(allow_null=True)
    bytes = serializers.IntegerField()
    metric = Metric(allow_null=True)
    energy_mj = serializers.IntegerField(allow_null=True, help_text="what making it took; null: not measured")
    emission_ug = serializers.IntegerField(allow_null=True)
    adapting = AdaptingReply(allow_null=True, help_text="what adapting such a model took; null: no such run was measured")
    adapted_unmeasured = serializers.IntegerField(help_text="runs that adapted this model and were not measured")
    saved = SavedReply(
        allow_null=True,
        help_text="what making it took less what adapting takes; null: either is unknown, and at most energy_mj is saved",
    )
    ways = WayReply(many=True, help_text="the runs of 'adapting' by how much of the model learned, what took least first")


class PreflightResponse(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=Verdict.choices)
    certainty = serializers.ChoiceField(choices=Certainty.choices)
    level = serializers.ChoiceField(choices=Level.choices)
    message = serializers.CharField(help_text="one sentence; empty where nothing is to be said")
    asked = serializers.UUIDField(help_text="of this question, for POST preflight/<asked>/outcome/")
    matches = MatchReply(many=True)
    estimate = inline_serializer(
        "EstimateReply",
        {
            "runs": serializers.IntegerField(help_text="finished runs of the same recipe that were measured"),
            "energy_mj": serializers.IntegerField(help_text="their lower median"),
            "low_mj": serializers.IntegerField(),
            "high_mj": serializers.IntegerField(),
            "emission_ug": serializers.IntegerField(allow_null=True),
        },
        allow_null=True,
    )
    reuse = ReuseReply(many=True, help_text="models that could be adapted instead of training anew")


class PreflightView(APIView):
    permission_classes = (CanAskPreflight,)
    parser_classes = (PackedJSONParser,)

    @extend_schema(request=PreflightSerializer, responses=PreflightResponse, operation_id="preflight")
    def post(self, request: Request) -> Response:
        """Ask whether a run was done already, runs now, or will fail (docs/duplicates.md)."""
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
        requester = Requester(who.user, visibility_for(who.lab, who.user), Scope.RUNS_READ in who.scopes)
        return Response(
            check_duplicates(lab=who.lab, payload=payload, requester=requester, node_uuid=who.node_uuid, now=now_us())
        )


class OutcomeBody(StrictSerializer):
    outcome = serializers.ChoiceField(choices=Outcome.choices)


class OutcomeView(APIView):
    permission_classes = (CanAskPreflight,)

    @extend_schema(request=OutcomeBody, responses=OutcomeBody, operation_id="preflight_outcome")
    def post(self, request: Request, uuid: UUID) -> Response:
        """Tell whether the run was stopped because of the answer, or went on. Idempotent."""
        body = OutcomeBody(data=request.data)
        body.is_valid(raise_exception=True)
        who, outcome = caller(request), Outcome(body.validated_data["outcome"])
        stored = record_outcome(lab=who.lab, uuid=uuid, outcome=outcome, by=who.user, node_uuid=who.node_uuid, now=now_us())
        return Response({"outcome": stored.outcome})
