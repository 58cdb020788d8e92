"""Every address of the server, from the resolver itself, and how to fill in its parameters for a
lab.
"""

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from apps.accounts.models import Invitation, Token
from apps.activity.models import Activity, ActivityFile, RecurringActivity
from apps.artifacts.models import CleanupPlan
from apps.assets.models import Asset, Attachment, LifecycleEvent, RegisterImport
from apps.attribution.models import AttributionRule, Claim
from apps.billing.models import BilledMonth, BillingFile
from apps.budgets.models import Budget
from apps.carbon.market.models import Instrument
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.providers.models import GridProvider
from apps.catalog.models import EmbodiedFigure
from apps.ingest.models import DeviceMove, QuarantinedWindow
from apps.planner.models import Estimate
from apps.pollers.models import AssetSource
from apps.preflight.models import DuplicateFinding, Preflight
from apps.reports.models import Statement
from apps.runs.models import Run
from apps.trackers.mlflow.models import MlflowSource
from tests.artifacts.support import digest
from tests.builders import SmallLab


def routes(
    patterns: list[URLPattern | URLResolver] | None = None, prefix: str = "/"
) -> Iterator[str]:
    """Yield each route as it is written, such as ``/runs/<uuid:uuid>/``."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        text = prefix + _plain(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, text)
        else:
            yield text


def _plain(text: str) -> str:
    """Return a regular expression's route without its anchors and groups."""
    if not text.startswith("^"):
        return text
    return (
        re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", r"<\1>", text.strip("^$"))
        .replace("\\Z", "")
        .replace("\\", "")
    )


def address(route: str, small: SmallLab, run: str) -> str:
    """Return a route with its parameters filled in by things of a lab."""
    uuid = run if "/runs/" in route else str(small.node.uuid)
    filled = {
        "rest": "x-1/runs",
        "slug": PROJECT,
        "zone": "DE",
        "uuid": uuid,
        "pk": str(small.site.pk),
        "person": str(small.owner.pk),
        "key": DEVICE,
        "digest": digest(ARTIFACT),
        "kind": "cloud_compute",
    }
    for part, (name, model) in FIRST_OF.items():
        if part in route:
            filled[name] = str(
                model.objects.filter(lab=small.lab).values_list(name, flat=True).first()
            )
    if "/catalog/" in route:
        own = EmbodiedFigure.objects.filter(lab=small.lab).order_by("pk")[0]
        filled.update(pk=str(own.model_id), model=str(own.model_id), figure=str(own.pk))
    if "/assets/" in route:
        filled["uuid"] = str(
            RegisterImport.objects.filter(lab=small.lab).values_list("uuid", flat=True).first()
        )
        filled["pk"] = str(Asset.objects.filter(lab=small.lab).values_list("pk", flat=True).first())
        filled["asset"] = filled["pk"]
        filled["source"] = str(
            AssetSource.objects.filter(lab=small.lab).values_list("pk", flat=True).first()
        )
        filled["attachment"] = str(
            Attachment.objects.filter(asset_id=int(filled["pk"]), deleted_us=None)
            .values_list("uuid", flat=True)
            .first()
        )
        filled["event"] = str(
            LifecycleEvent.objects.filter(asset_id=int(filled["pk"])).latest("pk").pk
        )
    if "/quarantine/" in route:
        row = QuarantinedWindow.objects.filter(node__lab=small.lab).order_by("pk").first()
        filled["pk"] = str(row.pk if row else 0)
    if "/device-moves/" in route:
        move = DeviceMove.objects.filter(device__lab=small.lab).order_by("pk").first()
        filled["pk"] = str(move.pk if move else 0)
    if "<int:finding>" in route:
        filled["finding"] = filled["pk"]
    if "<int:invitation>" in route:
        filled["invitation"] = str(Invitation.objects.get(lab=small.lab).pk)
    if "<str:token>" in route:
        filled["token"] = Token.objects.filter(lab=small.lab, name__gt="").values_list(
            "public_id", flat=True
        )[0]
    path = re.sub(r"<(?:\w+:)?(\w+)>", lambda match: filled.get(match[1], "x-1"), route)
    if path.startswith("/runs/compare"):
        pair = [
            run,
            *Run.objects.filter(lab=small.lab).exclude(uuid=run).values_list("uuid", flat=True)[:1],
        ]
        return path + "?" + "&".join(f"run={uuid}" for uuid in pair)
    return path + QUERIES.get(path, "")


# Parts of routes whose parameter is that of the lab's first thing of a kind.
FIRST_OF: dict[str, tuple[str, Any]] = {
    "/rules/": ("pk", AttributionRule), "/mlflow/": ("pk", MlflowSource),
    "/plans/": ("uuid", CleanupPlan), "/cleanup/": ("uuid", CleanupPlan),
    "/claims/": ("act", Claim), "/duplicates/": ("pk", DuplicateFinding),
    "/preflight/": ("uuid", Preflight), "/factors/providers/": ("pk", GridProvider),
    "/activities/": ("uuid", Activity), "/statements/": ("pk", Statement),
    "/activities/import/": ("uuid", ActivityFile), "/budgets/": ("pk", Budget),
    "/market/instruments/": ("pk", Instrument),
    "/factors/import/": ("uuid", OwnFactorFile), "/billing/": ("uuid", BillingFile),
    "/billing/months/": ("pk", BilledMonth), "/activities/recurring/": ("uuid", RecurringActivity),
    "/plan/estimates/": ("uuid", Estimate), "/planner/estimates/": ("uuid", Estimate),
}  # fmt: skip
PROJECT, ARTIFACT = "ours-only", "weights"
DEVICE = "gpu:GPU-0000-1111"
QUERY = "?metric=energy_mj&from=2026-11-02T00:00Z&to=2026-11-03T00:00Z"
SHARING = "?card=any.a10080gb" + "".join(
    f"&memory_{number}=4&use_{number}=10&hours_{number}=1" for number in (1, 2)
)
PLAN = "?source=layers&layers=conv 8 3x3&input=3x32x32&samples=100&epochs=2"
QUERIES = {
    "/explain/": QUERY, "/explain/ledger.csv": QUERY, "/api/v1/figures/": QUERY,
    "/api/v1/explain/": QUERY, "/explain/charges.csv": QUERY.replace("energy_mj", "embodied_ug"),
    "/planner/": PLAN, "/planner/result.csv": PLAN, "/planner/layers.csv": PLAN,
    "/planner/sharing/": SHARING, "/planner/sharing/plans.csv": SHARING,
}  # fmt: skip
