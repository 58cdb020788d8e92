"""API of sweeps: which runs are new, what they need, and smaller sweeps. Nothing is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.choices import Scope
from apps.accounts.permissions import caller
from apps.core.clock import utc
from apps.core.errors import Forbidden, InvalidInput
from apps.core.text import is_unstorable
from apps.planner.permissions import CanPlan
from apps.planner.sweep_runs.parsing import parse_sweep
from apps.planner.sweep_runs.selectors import Alternative, SweepPlan, SweepRequest, plan_sweep
from apps.planner.sweep_runs.serializers import MAX_LISTED, SweepBody, SweepReply
from apps.planner.sweeps.sweep import Sweep
from apps.runs.fingerprint_parsing import parse_fingerprint


class SweepView(APIView):
    permission_classes = (CanPlan,)

    @extend_schema(request=SweepBody, responses=SweepReply, operation_id="plan_sweep")
    def post(self, request: Request) -> Response:
        """Return the runs of a sweep, those that are duplicates or finished, and what the others
        need (docs/planner.md).
        """
        body = SweepBody(data=request.data)
        body.is_valid(raise_exception=True)
        data, who = body.validated_data, caller(request)
        reads = Scope.RUNS_READ in who.scopes
        base, fingerprint = data.get("base"), data.get("fingerprint")
        if base is not None and fingerprint is not None:
            raise InvalidInput(
                "There are a base and a fingerprint.", field="base", hint="Send one of them."
            )
        if base is not None and not reads:
            raise Forbidden(
                "This requires the scope 'runs:read'.", field="base", hint="Send a fingerprint."
            )
        project = data.get("project") or ""
        if is_unstorable(project):
            raise InvalidInput("Invalid character. Remove it and try again.", field="project")
        sweep = parse_sweep(data["format"], data["text"], data.get("runs"))
        plan = plan_sweep(
            lab=who.lab,
            request=SweepRequest(
                sweep=sweep,
                base=base,
                fingerprint=parse_fingerprint(fingerprint) if fingerprint is not None else None,
                project=project,
                random_runs=data.get("random_runs"),
            ),
        )
        return Response(_reply(sweep, plan, currency=who.lab.currency, reads=reads))


def _reply(sweep: Sweep, plan: SweepPlan, *, currency: str, reads: bool) -> dict[str, Any]:
    points, done = sweep.points or (), plan.done
    return {
        "runs": sweep.runs,
        "new_runs": plan.new_runs,
        "duplicate_runs": None if plan.duplicates is None else len(plan.duplicates),
        "done_runs": None if done is None else len(done),
        "possible_runs": None if done is None else sum(run.is_possible for run in done.values()),
        "unknown": plan.unknown,
        "new_params": plan.new_params,
        "ends_early": sweep.ends_early,
        "currency": currency,
        "family_runs": plan.family_runs,
        "totals": asdict(plan.totals),
        "duplicates": [
            {
                "run": duplicate.point + 1,
                "of": duplicate.of + 1,
                "params": points[duplicate.point],
                "possible": duplicate.is_possible,
            }
            for duplicate in (plan.duplicates or ())[:MAX_LISTED]
        ],
        "done": [
            {
                "run": number + 1,
                "params": points[number],
                "uuid": str(run.uuid) if reads else None,
                "url": f"{settings.SITE_URL}{reverse('run', args=[run.uuid])}" if reads else None,
                "started_at": utc(run.started_us).isoformat(),
                "possible": run.is_possible,
            }
            for number, run in sorted((done or {}).items())[:MAX_LISTED]
        ],
        "alternatives": [_alternative(one, points, plan) for one in plan.alternatives],
    }


def _alternative(
    alternative: Alternative, points: Sequence[Mapping[str, Any]], plan: SweepPlan
) -> dict[str, Any]:
    is_random = alternative.kind == "random"
    return {
        "kind": alternative.kind,
        "runs": len(alternative.points),
        "new_runs": alternative.new_runs,
        "saved_runs": plan.new_runs - alternative.new_runs,
        "saved": asdict(alternative.saved),
        "values": alternative.values,
        "points": [points[number] for number in alternative.points[:MAX_LISTED]]
        if is_random
        else None,
    }
