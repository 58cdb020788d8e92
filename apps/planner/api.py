"""API of estimates before a run."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.choices import Scope
from apps.accounts.models import Lab, Project
from apps.accounts.permissions import caller
from apps.accounts.selectors import project_by_slug, require_project
from apps.core.clock import now_us, utc
from apps.core.errors import Forbidden, InvalidInput
from apps.fleet.selectors import node_of, site_of
from apps.planner.choices import Basis, Precision, Trainable
from apps.planner.formulas.layer_table import LayerTableError, read_layer_table
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.ranges import Range, divide
from apps.planner.formulas.time_and_energy import Probe
from apps.planner.formulas.work import Training, Work
from apps.planner.job_input import JobInput, Place
from apps.planner.permissions import CanPlan
from apps.planner.presets import presets
from apps.planner.serializers import JobBody, JobReply
from apps.planner.service_estimates import (
    ServingEstimate,
    ServingInput,
    benchmarks,
    estimate_serving,
)
from apps.planner.services import ComputedEstimate, compute_estimate, create_estimate
from apps.runs.fingerprint_parsing import parse_fingerprint
from apps.runs.models import Run
from apps.runs.selectors import run_of


class JobView(APIView):
    permission_classes = (CanPlan,)

    @extend_schema(request=JobBody, responses=JobReply, operation_id="plan_job")
    def post(self, request: Request) -> Response:
        """Estimate time, energy, emissions and cost of a training before it runs
        (docs/planner.md).
        """
        body = JobBody(data=request.data)
        body.is_valid(raise_exception=True)
        data, who, now = body.validated_data, caller(request), now_us()
        job = _job(data, who)
        serving = _serving_input(data.get("serving"), who)
        estimate = None
        if data["store"]:
            _require(who, Scope.RUNS_WRITE, "store")
            estimate, computed = create_estimate(lab=who.lab, job=job, person=who.user, now=now)
        else:
            computed = compute_estimate(lab=who.lab, job=job, now=now)
        month = serving and estimate_serving(
            lab=who.lab, serving=serving, conditions=computed.conditions
        )
        return Response(
            {
                "estimate": str(estimate.uuid) if estimate else None,
                "expires_at": utc(estimate.expires_us) if estimate else None,
                **reply(computed),
                "serving": month and _serving_reply(month),
            }
        )


def reply(computed: ComputedEstimate) -> dict[str, Any]:
    """Return an estimate as an API response."""
    figures, price = computed.figures, computed.conditions.price
    return {
        "basis": computed.basis,
        "facts": dict(figures.facts) if figures else {},
        "missing": computed.missing,
        "is_order_of_magnitude": computed.basis == Basis.CATALOGUE,
        "time_us": range_reply(figures.time_us if figures else None),
        "reserve_us": figures.reserve_us if figures else None,
        "gpu_energy_mj": range_reply(figures.gpu_energy_mj if figures else None),
        "node_energy_mj": range_reply(figures.node_energy_mj if figures else None),
        "emission_ug": range_reply(computed.emission_ug),
        "cost_ucurrency": range_reply(computed.cost_ucurrency),
        "currency": price.currency if price else None,
        "conditions": computed.conditions.to_json(),
    }


def range_reply(figure: Range | None) -> dict[str, int] | None:
    """Return a range as an API response."""
    if figure is None:
        return None
    return {"low": figure.low, "likely": figure.likely, "high": figure.high}


def _serving_reply(month: ServingEstimate) -> dict[str, Any]:
    return {
        "basis": month.basis,
        "source": month.source,
        "monthly_energy_mj": range_reply(month.energy_mj),
        "monthly_emission_ug": range_reply(month.emission_ug),
        "monthly_cost_ucurrency": range_reply(month.cost_ucurrency),
        "missing": month.missing,
    }


def _job(data: dict[str, Any], who: Caller) -> JobInput:
    lab, training, work = who.lab, data.get("training") or {}, data.get("work") or {}
    fingerprint = data.get("fingerprint")
    return JobInput(
        model=_model(data.get("model")),
        training=Training(
            Trainable(training.get("trainable", Trainable.FULL)),
            Precision(training.get("precision", Precision.FP32)),
            training.get("checkpointing", False),
            training.get("gpus"),
        ),
        work=Work(**work),
        place=_place(lab, data.get("place") or {}),
        project=_project(lab, data.get("project")),
        fingerprint=parse_fingerprint(fingerprint) if fingerprint else None,
        like_run=_run(who, data.get("like_run"), "like_run"),
        probe=_probe(data.get("probe")),
    )


def _model(model: dict[str, Any] | None) -> ModelCosts | None:
    if model is None:
        return None
    if "preset" in model:
        costs = presets().get(model["preset"])
        if costs is None:
            raise InvalidInput(
                "There is no such preset.",
                field="model.preset",
                hint=f"Use one of: {', '.join(presets())}.",
            )
        return costs
    if "layers" in model:
        try:
            return read_layer_table(model["layers"]["text"], input_shape=model["layers"]["input"])
        except LayerTableError as error:
            raise InvalidInput(str(error), field="model.layers") from error
    return ModelCosts(**model["costs"])


def _place(lab: Lab, place: dict[str, Any]) -> Place:
    node = site = None
    if place.get("node") is not None and (node := node_of(lab, place["node"])) is None:
        raise InvalidInput(
            "There is no such node in this lab.",
            field="place.node",
            hint="Use the UUID of its page.",
        )
    if place.get("site") is not None and (site := site_of(lab, place["site"])) is None:
        raise InvalidInput(
            "There is no such site in this lab.",
            field="place.site",
            hint="Use the number in the address of its page.",
        )
    return Place(node, site, place.get("gpu"))


def _project(lab: Lab, slug: str | None) -> Project | None:
    if not slug:
        return None
    require_project(lab, slug)
    return project_by_slug(lab, slug)


def _run(who: Caller, uuid: UUID | None, field: str) -> Run | None:
    if uuid is None:
        return None
    _require(who, Scope.RUNS_READ, field)
    run = run_of(who.lab, uuid)
    if run is None:
        raise InvalidInput(
            "There is no such run in this lab.", field=field, hint="Use the UUID of its page."
        )
    return run


def _probe(body: dict[str, Any] | None) -> Probe | None:
    if body is None or body.get("steps") is None:
        return None
    steps, power = body["steps"], body.get("power_mw") or {}
    evaluations = steps["evaluations_us"]
    gpu, run = power.get("gpu"), power.get("run")
    return Probe(
        measured_us=body["measured_us"],
        steps=steps["measured"],
        step_us=steps["mean_us"],
        first_step_us=steps.get("first_epoch_us"),
        variation_ppm=steps["variation_ppm"],
        startup_us=steps["startup_us"],
        epoch_steps=steps.get("epoch_steps"),
        evaluation_us=divide(sum(evaluations), len(evaluations)) if evaluations else 0,
        evaluation_steps=steps.get("evaluation_steps"),
        gpu_mw=gpu["mean"] if gpu else None,
        node_mw=run["mean"] if run else None,
    )


def _serving_input(body: dict[str, Any] | None, who: Caller) -> ServingInput | None:
    if body is None:
        return None
    benchmark = body.get("benchmark") or ""
    if benchmark and benchmark not in benchmarks():
        raise InvalidInput(
            "There is no such benchmark with measured power.",
            field="serving.benchmark",
            hint=f"Use one of: {', '.join(sorted(benchmarks()))}.",
        )
    service = _run(who, body.get("run"), "serving.run")
    return ServingInput(body["requests_per_day"], service, benchmark)


def _require(who: Caller, scope: Scope, field: str) -> None:
    if scope not in who.scopes:
        raise Forbidden(
            f"{field} requires the scope {scope.value!r}.", hint="Ask an admin of your lab."
        )
