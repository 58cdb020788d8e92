"""Plans over the API: what ``apply-plan`` asks, and what it tells."""

from dataclasses import asdict
from fractions import Fraction
from typing import Annotated, Any
from uuid import UUID

import msgspec
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.permissions import caller, require
from apps.artifacts.choices import LineOutcome, PlanState
from apps.artifacts.cleanup.eligibility import Going, going
from apps.artifacts.cleanup.notifications import untold
from apps.artifacts.cleanup.outcomes import Outcome, note_outcomes
from apps.artifacts.cleanup.plans import plan_of
from apps.artifacts.cleanup.totals import break_even_of, kept_with, sums_of
from apps.artifacts.holds import held_by
from apps.artifacts.models import Hold, Notice, Plan
from apps.artifacts.serializers import hold_row
from apps.artifacts.storage_model import in_ppm
from apps.core.clock import now_us, utc
from apps.core.errors import InvalidInput, NotFound
from apps.core.text import replace_unstorable
from apps.core.units import INT64_MAX
from apps.ingest.api import RawParser


class OutcomeRow(msgspec.Struct, forbid_unknown_fields=True):
    """What became of a line."""

    line: Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]
    outcome: LineOutcome
    word: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class Outcomes(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST artifacts/plans/<uuid>/outcomes/."""

    lines: Annotated[list[OutcomeRow], msgspec.Meta(max_length=1000)]


_BODY = msgspec.json.Decoder(Outcomes)
_SHAPE = '{"lines": [{"line": 7, "outcome": "trashed", "word": ""}]}'


# A person carries a plan out: a machine's own token neither reads nor moves one on.
_BOTH = (require("runs:read"), require("runs:write"))


class PlanView(APIView):
    permission_classes = _BOTH

    @extend_schema(responses=OpenApiTypes.OBJECT, operation_id="artifact_plan")
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return a plan: who was told of it, the lines that may go now, and why the others stay."""
        plan, now = _found(caller(request), uuid), now_us()
        lines, sums, kept = going(plan, now), sums_of(plan), kept_with(plan)
        held = held_by(plan.lab, {each.line.artifact_id: each.line.artifact for each in lines}, now)
        return Response({
            "plan": str(plan.uuid), "lab": plan.lab.name, "node": str(plan.node.uuid), "hostname": plan.node.hostname,
            "state": plan.state, "trash_days": plan.trash_days,
            "approved_at": utc(plan.approved_us).isoformat() if plan.approved_us else None,
            "approved_by": plan.approved_by.username if plan.approved_by else None,
            "grace_until": utc(plan.grace_until_us).isoformat() if plan.grace_until_us else None,
            "told": [_told(notice) for notice in plan.notices.order_by("name", "pk")],
            "untold": [each.user.get_username() for each in untold(plan)] if plan.state == PlanState.TOLD else [],
            "sums": {**asdict(sums), "break_even_ppm_a_year": in_ppm(sums.break_even)},
            "lines": [_line(each, held.get(each.line.artifact_id), break_even_of(each.line, kept)) for each in lines],
        })  # fmt: skip


class OutcomesView(APIView):
    permission_classes = _BOTH
    parser_classes = (RawParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer("OutcomesTold", {"changed": serializers.IntegerField()}),
        operation_id="artifact_plan_outcomes",
    )
    def post(self, request: Request, uuid: UUID) -> Response:
        """Tell what became of lines of an approved plan. Idempotent."""
        who = caller(request)
        body: Any = request.data
        try:
            told = _BODY.decode(body or b"")
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `$.")
            raise InvalidInput(f"{text}.", field=where.strip("`") or "lines", hint=_SHAPE) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidInput("The body must be JSON.", code="parse_error", hint=_SHAPE) from error
        outcomes = [Outcome(row.line, row.outcome, replace_unstorable(row.word)) for row in told.lines]
        changed = note_outcomes(plan=_found(who, uuid), outcomes=outcomes, by=who.user, now=now_us())
        return Response({"changed": changed})


def _found(who: Caller, uuid: UUID) -> Plan:
    plan = plan_of(who.lab, uuid)
    if plan is None:
        raise NotFound("There is no such plan in this lab.", hint="Open /artifacts/plans/ for its number.")
    return plan


def _line(each: Going, hold: Hold | None, pays_from: Fraction | None) -> dict[str, Any]:
    line = each.line
    return {
        "line": line.pk, "path": line.copy.path, "digest": line.artifact.digest, "form": line.artifact.form,
        "bytes": line.artifact.bytes, "files": line.artifact.files, "name": line.artifact.name, "kept": line.kept,
        "goes": not each.stays, "stays": each.stays, "outcome": line.outcome, "went_with": line.went_with_id,
        "held": hold_row(hold) if hold else None,
        "storage_mj_a_year": line.storage_mj, "storage_ug_a_year": line.storage_ug, "retrain_mj": line.retrain_mj,
        "retrain_ug": line.retrain_ug, "break_even_ppm_a_year": in_ppm(pays_from),
    }  # fmt: skip


def _told(notice: Notice) -> dict[str, Any]:
    return {
        "person": notice.name, "own": notice.own, "others": notice.others, "told_at": utc(notice.told_us).isoformat(),
        "mail": notice.mail, "mailed_at": utc(notice.mailed_us).isoformat() if notice.mailed_us else None,
    }  # fmt: skip
