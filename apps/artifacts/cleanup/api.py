"""API of cleanup plans, used by ``apply-plan``."""

from dataclasses import asdict
from fractions import Fraction
from typing import Annotated, Any
from uuid import UUID

import msgspec
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.permissions import caller, require
from apps.artifacts.choices import ItemOutcome, PlanState
from apps.artifacts.cleanup.freed_space import FreedSpace, freed_space
from apps.artifacts.cleanup.notifications import not_notified
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plan_check import Eligibility, check_plan
from apps.artifacts.cleanup.plans import plan_by_uuid
from apps.artifacts.cleanup.totals import artifact_storage_mj, item_break_even, plan_totals
from apps.artifacts.holds import effective_holds
from apps.artifacts.models import CleanupPlan, Hold, Notification
from apps.artifacts.serializers import hold_row
from apps.artifacts.storage_model import to_ppm
from apps.core.clock import now_us, utc
from apps.core.errors import InvalidInput, NotFound
from apps.core.request_body import JsonBytesParser
from apps.core.text import replace_unstorable
from apps.core.units import INT64_MAX


class OutcomeRow(msgspec.Struct, forbid_unknown_fields=True):
    """The outcome of an item."""

    line: Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]
    outcome: ItemOutcome
    word: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class Outcomes(msgspec.Struct, forbid_unknown_fields=True):
    """The payload of POST artifacts/plans/<uuid>/outcomes/."""

    lines: Annotated[list[OutcomeRow], msgspec.Meta(max_length=1000)]


_BODY = msgspec.json.Decoder(Outcomes)
_SHAPE = '{"lines": [{"line": 7, "outcome": "trashed", "word": ""}]}'


# A person executes a plan: a machine's own token cannot read or change one.
_PERMISSIONS = (require("runs:read"), require("runs:write"))


class PlanView(APIView):
    permission_classes = _PERMISSIONS

    @extend_schema(responses=OpenApiTypes.OBJECT, operation_id="artifact_plan")
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return a plan: its notifications, the eligible items, and the reasons that block the
        others.
        """
        plan, now = _plan_or_404(caller(request), uuid), now_us()
        results, totals, storage_mj = (
            check_plan(plan, now),
            plan_totals(plan),
            artifact_storage_mj(plan),
        )
        freed = freed_space([plan])
        holds = effective_holds(
            plan.lab, {result.item.artifact_id: result.item.artifact for result in results}, now
        )
        return Response(
            {
                "plan": str(plan.uuid),
                "lab": plan.lab.name,
                "node": str(plan.node.uuid),
                "hostname": plan.node.hostname,
                "state": plan.state,
                "trash_days": plan.trash_days,
                "approved_at": utc(plan.approved_us).isoformat() if plan.approved_us else None,
                "approved_by": plan.approved_by.username if plan.approved_by else None,
                "grace_until": utc(plan.grace_until_us).isoformat()
                if plan.grace_until_us
                else None,
                "told": [
                    _notification_row(notification)
                    for notification in plan.notifications.order_by("name", "pk")
                ],
                "untold": [result.user.get_username() for result in not_notified(plan)]
                if plan.state == PlanState.NOTIFIED
                else [],
                "sums": {**asdict(totals), "break_even_ppm_a_year": to_ppm(totals.break_even)},
                "lines": [
                    _item_row(
                        result,
                        holds.get(result.item.artifact_id),
                        item_break_even(result.item, storage_mj),
                        freed.get(result.item.pk),
                    )
                    for result in results
                ],
            }
        )


class OutcomesView(APIView):
    permission_classes = _PERMISSIONS
    parser_classes = (JsonBytesParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer("OutcomesTold", {"changed": serializers.IntegerField()}),
        operation_id="artifact_plan_outcomes",
    )
    def post(self, request: Request, uuid: UUID) -> Response:
        """Report the outcomes of items of an approved plan. Idempotent."""
        api_caller = caller(request)
        body: Any = request.data
        try:
            payload = _BODY.decode(body or b"")
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `$.")
            raise InvalidInput(
                f"{text}.", field=where.strip("`") or "lines", hint=_SHAPE
            ) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidInput("The body must be JSON.", code="parse_error", hint=_SHAPE) from error
        outcomes = [
            Outcome(row.line, row.outcome, replace_unstorable(row.word)) for row in payload.lines
        ]
        changed = record_outcomes(
            plan=_plan_or_404(api_caller, uuid), outcomes=outcomes, by=api_caller.user, now=now_us()
        )
        return Response({"changed": changed})


def _plan_or_404(api_caller: Caller, uuid: UUID) -> CleanupPlan:
    plan = plan_by_uuid(api_caller.lab, uuid)
    if plan is None:
        raise NotFound(
            "There is no such plan in this lab.",
            hint=f"See the list at {reverse('cleanup-plans')}.",
        )
    return plan


def _item_row(
    result: Eligibility, hold: Hold | None, pays_from: Fraction | None, freed: FreedSpace | None
) -> dict[str, Any]:
    item = result.item
    return {
        "line": item.pk,
        "path": item.copy.path,
        "digest": item.artifact.digest,
        "form": item.artifact.form,
        "bytes": item.artifact.bytes,
        "freed_bytes": freed.bytes if freed else item.artifact.bytes,
        "files": item.artifact.files,
        "name": item.artifact.name,
        "kept": item.retention_class,
        "goes": not result.blocked_reason,
        "stays": result.blocked_reason,
        "outcome": item.outcome,
        "went_with": item.parent_item_id,
        "held": hold_row(hold) if hold else None,
        "storage_mj_a_year": freed.storage_mj if freed else item.storage_mj,
        "storage_ug_a_year": freed.storage_ug if freed else item.storage_ug,
        "retrain_mj": item.retrain_mj,
        "retrain_ug": item.retrain_ug,
        "break_even_ppm_a_year": to_ppm(pays_from),
    }


def _notification_row(notification: Notification) -> dict[str, Any]:
    return {
        "person": notification.name,
        "own": notification.own_items,
        "others": notification.other_items,
        "told_at": utc(notification.notified_us).isoformat(),
        "mail": notification.mail,
        "mailed_at": utc(notification.mailed_us).isoformat() if notification.mailed_us else None,
    }
