"""API of duplicate findings: list them, read one beside its original, decide."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.choices import Role
from apps.accounts.permissions import caller, require
from apps.accounts.selectors import role_in
from apps.carbon.figures.energy import figures_of_runs
from apps.carbon.figures.visibility import visibility_for
from apps.core.api import NumberCursorPagination, StrictSerializer
from apps.core.clock import now_us, utc
from apps.core.errors import Forbidden, InvalidInput, NotFound
from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX
from apps.preflight.choices import (
    RECORDED_VERDICTS,
    Certainty,
    FindingState,
    ValueState,
    Verdict,
)
from apps.preflight.finding_selectors import compare_runs, finding_by_id, list_findings
from apps.preflight.models import DuplicateFinding
from apps.preflight.presenters import emission_of, who_of
from apps.preflight.services.findings import MAX_REASON, decide, reopen
from apps.runs.choices import EnergyState
from apps.runs.models import Run
from apps.runs.selectors import energy_states

_CHOICES = {
    "state": FindingState.values,
    "verdict": sorted(verdict.value for verdict in RECORDED_VERDICTS),
    "certainty": Certainty.values,
}
FILTERS = (*_CHOICES, "project", "text", "run")
PAGING = ("cursor", "page_size")
_DECISION_PERMISSIONS = (require("runs:read"), require("runs:write"))


class FindingPagination(NumberCursorPagination):
    """Pages, newest first."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 250  # two runs each: the figures are read for 500 runs at once
    ordering = ("-detected_us", "-pk")


class FindingRunReply(serializers.Serializer[Any]):
    uuid = serializers.UUIDField()
    name = serializers.CharField()
    url = serializers.CharField()
    who = serializers.CharField()
    project = serializers.CharField(allow_null=True, help_text="null: unattributed")
    state = serializers.CharField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="null: unknown or running")
    energy_mj = serializers.IntegerField(allow_null=True, help_text="null: see energy_state")
    energy_state = serializers.ChoiceField(choices=EnergyState.choices)
    emission_ug = serializers.IntegerField(
        allow_null=True, help_text="null: unknown for part of the energy"
    )


class FindingReply(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    url = serializers.CharField()
    run = FindingRunReply(help_text="the run that repeats 'original'")
    original = FindingRunReply()
    verdict = serializers.ChoiceField(choices=Verdict.choices)
    certainty = serializers.ChoiceField(choices=Certainty.choices)
    weak = serializers.ListField(
        child=serializers.CharField(), help_text="parts compared by names, sizes and times only"
    )
    detected_at = serializers.DateTimeField()
    state = serializers.ChoiceField(choices=FindingState.choices)
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(allow_null=True)
    reason = serializers.CharField()


class FindingDetail(FindingReply):
    differs = serializers.ListField(
        child=inline_serializer(
            "FindingDifference",
            {
                "part": serializers.CharField(),
                "name": serializers.CharField(),
                "here": serializers.JSONField(
                    allow_null=True, help_text="value of 'run'; null: see here_state"
                ),
                "there": serializers.JSONField(allow_null=True),
                "here_state": serializers.ChoiceField(choices=ValueState.choices, allow_null=True),
                "there_state": serializers.ChoiceField(choices=ValueState.choices, allow_null=True),
            },
        )
    )
    ignored = serializers.ListField(
        child=serializers.CharField(), help_text="parameters that the project does not compare"
    )


class DecisionBody(StrictSerializer):
    state = serializers.ChoiceField(
        choices=FindingState.choices, help_text="open: undo the decision"
    )
    reason = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=MAX_REASON,
        help_text="required for dismissed",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["state"] == FindingState.OPEN and attrs.get("reason"):
            raise InvalidInput("An undone decision has no reason.", field="reason", hint="Omit it.")
        return attrs


class FindingsView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(
        parameters=[OpenApiParameter(name, OpenApiTypes.STR) for name in (*FILTERS, *PAGING)],
        responses=FindingReply(many=True),
        operation_id="duplicates_list",
    )
    def get(self, request: Request) -> Response:
        """List duplicate findings by pages, newest first. Without ``state``: of all states."""
        who = caller(request)
        pages = FindingPagination()
        page = pages.paginate_queryset(
            _filter_findings(who, request.query_params), request, view=self
        )
        return pages.get_paginated_response(_rows(who, page or []))


class FindingView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(responses=FindingDetail, operation_id="duplicate")
    def get(self, request: Request, finding: int) -> Response:
        """Return one finding, with the differences of its runs."""
        who = caller(request)
        return Response(_detail(who, _finding_or_404(who, finding)))


class DecisionView(APIView):
    # A person decides: a node's token reads no runs.
    permission_classes = _DECISION_PERMISSIONS

    @extend_schema(request=DecisionBody, responses=FindingDetail, operation_id="duplicate_decision")
    def post(self, request: Request, finding: int) -> Response:
        """Decide about a finding, or undo the decision. Owners of its runs, PIs and admins."""
        body = DecisionBody(data=request.data)
        body.is_valid(raise_exception=True)
        who, data = caller(request), body.validated_data
        if who.user is None:
            raise Forbidden("A person decides about findings.", hint="Use a personal token.")
        record = _finding_or_404(who, finding)
        arguments: dict[str, Any] = {
            "lab": who.lab,
            "finding_ids": [record.pk],
            "by": who.user,
            "is_manager": role_in(who.lab, who.user) in (Role.PI, Role.ADMIN),
            "now": now_us(),
        }
        state = FindingState(data["state"])
        if state != FindingState.OPEN:
            decide(state=state, reason=data.get("reason", ""), **arguments)
        elif record.state != FindingState.OPEN:
            reopen(**arguments)
        return Response(_detail(who, _finding_or_404(who, finding)))


def _finding_or_404(who: Caller, pk: int) -> DuplicateFinding:
    finding = finding_by_id(who.lab, pk) if pk <= INT64_MAX else None
    if finding is None:
        raise NotFound(
            "There is no such finding in this lab.",
            hint=f"GET {reverse('api-duplicates')} lists them.",
        )
    return finding


def _filter_findings(who: Caller, params: QueryDict) -> QuerySet[DuplicateFinding]:
    unknown = sorted(set(params) - {*FILTERS, *PAGING})
    if unknown:
        raise InvalidInput(
            f"{unknown[0][:40]!r} is not a filter.",
            field=unknown[0],
            hint=f"Known: {', '.join(FILTERS)}.",
        )
    filters = {name: params.get(name, "") for name in FILTERS}
    for name, value in filters.items():
        if is_unstorable(value):
            raise InvalidInput("Invalid character in filter.", field=name)
        if value and name in _CHOICES and value not in _CHOICES[name]:
            raise InvalidInput(
                f"Invalid {name}: {value[:40]!r}.",
                field=name,
                hint=f"Use one of {', '.join(_CHOICES[name])}.",
            )
    run = filters.pop("run")
    findings = list_findings(who.lab, **filters)
    if not run:
        return findings
    try:
        return findings.filter(run__uuid=UUID(run))
    except ValueError as error:
        raise InvalidInput(f"{run[:40]!r} is not the UUID of a run.", field="run") from error


def _rows(who: Caller, findings: Sequence[DuplicateFinding]) -> list[dict[str, Any]]:
    """Return findings in the API's form. A fixed number of queries."""
    visibility = visibility_for(who.lab, who.user)
    runs = [run for finding in findings for run in (finding.run, finding.original)]
    uuids = list(dict.fromkeys(run.uuid for run in runs))
    figures = figures_of_runs(who.lab, uuids)
    states = energy_states(who.lab, uuids, figures)

    def run_row(run: Run) -> dict[str, Any]:
        figure, project = figures.get(run.uuid), run.charged_project
        return {
            "uuid": str(run.uuid),
            "name": run.name,
            "url": f"{settings.SITE_URL}{reverse('run', args=[run.uuid])}",
            "who": who_of(run, visibility),
            "project": project.slug if project is not None else None,
            "state": run.state,
            "started_at": utc(run.started_us).isoformat(),
            "ended_at": utc(run.ended_us).isoformat() if run.ended_us is not None else None,
            "energy_mj": figure.energy_mj if figure else None,
            "energy_state": states[run.uuid].value,
            "emission_ug": emission_of(figure),
        }

    return [
        {
            "id": finding.pk,
            "url": f"{settings.SITE_URL}{reverse('duplicate', args=[finding.pk])}",
            "run": run_row(finding.run),
            "original": run_row(finding.original),
            "verdict": finding.verdict,
            "certainty": finding.certainty,
            "weak": finding.unverified_parts,
            "detected_at": utc(finding.detected_us).isoformat(),
            "state": finding.state,
            "decided_at": utc(finding.decided_us).isoformat() if finding.decided_us else None,
            "decided_by": finding.decided_by.get_username() if finding.decided_by else None,
            "reason": finding.reason,
        }
        for finding in findings
    ]


def _detail(who: Caller, finding: DuplicateFinding) -> dict[str, Any]:
    [row], sides = _rows(who, [finding]), compare_runs(finding)
    differs = [
        {
            "part": difference.part,
            "name": difference.name,
            "here": difference.here,
            "there": difference.there,
            "here_state": difference.here_state,
            "there_state": difference.there_state,
        }
        for difference in sides.differs
    ]
    return {**row, "differs": differs, "ignored": sorted(sides.ignored)}
