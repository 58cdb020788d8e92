"""API of stored estimates and their outcomes."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.choices import Scope
from apps.accounts.permissions import caller, require
from apps.core.clock import now_us, utc
from apps.core.errors import NotFound
from apps.planner.models import Estimate
from apps.planner.outcomes.serializers import StoredEstimateReply
from apps.planner.outcomes.states import outcome_of


class EstimateView(APIView):
    permission_classes = (require(Scope.RUNS_READ),)

    @extend_schema(responses=StoredEstimateReply, operation_id="plan_estimate")
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return a stored estimate with its run and outcome (docs/planner.md)."""
        estimates = Estimate.objects.select_related("project", "run")
        estimate = estimates.filter(lab=caller(request).lab, uuid=uuid).first()
        if estimate is None:
            raise NotFound("There is no such estimate in this lab.")
        return Response(present_estimate(estimate, now=now_us()))


def present_estimate(estimate: Estimate, *, now: int) -> dict[str, Any]:
    """Return an estimate, read with its project and run, as an API response."""
    outcome = outcome_of(estimate, now)
    return {
        "uuid": str(estimate.uuid),
        "project": estimate.project.slug if estimate.project else None,
        "created_at": utc(estimate.created_us),
        "expires_at": utc(estimate.expires_us),
        "version": estimate.version,
        "basis": estimate.basis,
        "facts": estimate.facts,
        "input": estimate.input,
        "time_us": _range(estimate, "time", "us"),
        "gpu_energy_mj": _range(estimate, "gpu_energy", "mj"),
        "node_energy_mj": _range(estimate, "node_energy", "mj"),
        "emission_ug": _range(estimate, "emission", "ug"),
        "cost_ucurrency": _range(estimate, "cost", "ucurrency"),
        "currency": estimate.currency or None,
        "conditions": estimate.conditions,
        "run": str(estimate.run.uuid) if estimate.run else None,
        "attached_at": _moment(estimate.attached_us),
        "outcome": {
            "state": outcome.state,
            "reason": outcome.reason,
            "scored_at": _moment(estimate.scored_us),
            "time_us": estimate.actual_time_us,
            "gpu_energy_mj": estimate.actual_gpu_energy_mj,
            "node_energy_mj": estimate.actual_node_energy_mj,
        },
    }


def _range(estimate: Estimate, name: str, unit: str) -> dict[str, int] | None:
    ends = {end: getattr(estimate, f"{name}_{end}_{unit}") for end in ("low", "likely", "high")}
    return None if ends["likely"] is None else ends


def _moment(at_us: int | None) -> Any:
    return None if at_us is None else utc(at_us)
