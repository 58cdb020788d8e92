"""What hostile requests are sent to: every address and form of a filled lab, and valid bodies of
each endpoint.
"""

# ruff: noqa: E501  (a table is read by its rows)
import json
from pathlib import Path
from typing import Any

from django import forms as django_forms
from django.test import Client
from django.urls import resolve

from apps.artifacts.models import CleanupPlan
from apps.assets.models import Asset, LifecycleEvent
from apps.core.clock import now_us
from apps.dashboard.forms import PageForm
from apps.preflight.models import Preflight
from tests.artifacts.support import digest
from tests.attacks.hostile_requests import HtmlForm, forms_of
from tests.attacks.routes import address, routes
from tests.builders import SmallLab
from tests.runs.fingerprints import told
from tests.trackers.support import emission, tracker

CONTRACT = Path(__file__).parents[1] / "contract"
NEW_RUN = "7f1d3b52-9999-4333-8444-555566667777"
# They end the visitor's own session.
_LEFT_OUT = ("/accounts/logout/", "/accounts/password/")


def addresses_of(small: SmallLab, run: str) -> list[str]:
    """Return every address, filled with records of the lab."""
    return [
        address(route, small, run) for route in sorted(routes()) if not route.startswith(_LEFT_OUT)
    ]


def forms_on_pages(pages: list[str], client: Client) -> list[HtmlForm]:
    """Return each form of the pages that ``client`` can see, and every form of its area for a page
    that selects one by ``?action=``.
    """
    forms: dict[HtmlForm, None] = {}
    for page in pages:
        if page.startswith(("/api/", *_LEFT_OUT)):
            continue
        response = client.get(page)
        if response.status_code == 200 and response["Content-Type"].startswith("text/html"):
            forms.update(dict.fromkeys(forms_of(page, response.content.decode())))
            path = page.partition("?")[0]
            if client.get(path, {"action": "none"}).status_code == 400:
                forms.update(dict.fromkeys(_forms_of_area(path)))
    return [form for form in forms if not form.path.startswith(_LEFT_OUT)]


def _forms_of_area(path: str) -> list[HtmlForm]:
    area = resolve(path).func.__module__.rpartition(".")[0]
    classes = [form for form in _subclasses(PageForm) if form.__module__.startswith(area)]
    return [
        HtmlForm(
            path,
            "POST",
            (
                ("action", form.action),
                *((name, _plausible(field)) for name, field in form.base_fields.items()),
            ),
        )
        for form in classes
        if form.action
    ]


def _plausible(field: django_forms.Field) -> str:
    """Return a value that the field can accept: nothing, if that is possible."""
    if not field.required:
        return ""
    if isinstance(field, django_forms.DateField):
        return "2026-11-02"
    if isinstance(field, django_forms.TimeField):
        return "08:00"
    if isinstance(field, django_forms.ModelChoiceField):
        assert field.queryset is not None
        record = field.queryset.first()
        return str(field.prepare_value(record)) if record else ""
    choices = [str(value) for value, _ in getattr(field, "choices", ()) if value]
    return choices[0] if choices else "1"


def _subclasses(base: type[PageForm]) -> list[type[PageForm]]:
    below = base.__subclasses__()
    return [*below, *(deeper for form in below for deeper in _subclasses(form))]


def bodies_of(small: SmallLab, run: str) -> list[tuple[str, str, Any]]:
    """Return (method, address, valid JSON) of each endpoint that accepts a body."""
    asset = Asset.objects.filter(lab=small.lab).order_by("pk")[0]
    event = LifecycleEvent.objects.filter(asset=asset).latest("pk")
    plan, check = CleanupPlan.objects.get(lab=small.lab), Preflight.objects.get(lab=small.lab)
    codecarbon = tracker(small)
    item, node = plan.items.get(), str(small.node.uuid)
    opening = {"kind": "purchase", "at": "2026-03-01T00:00:00Z", "project": "demo"}
    job = {
        "cluster": "hpc",
        "id": "7",
        "account": "vision",
        "nodes": "gpu1",
        "gpus": {"gpu1": ["GPU-0"]},
    }
    bulk = {"name": "train", "started_at": "2026-11-02T08:00:00Z", "ended_at": "2026-11-02T09:00:00Z",
            "state": "finished", "exit_code": 0, "job": job}  # fmt: skip
    artifact = {"digest": digest("new"), "name": "best.pt", "bytes": 4, "kind": "model", "tags": {"a": "b"},
                "facts": {"a": 1}, "aliases": {"md5": "0" * 32}, "copies": [{"path": "/a", "medium": "ssd"}],
                "runs": [{"run": run, "role": "produced"}]}  # fmt: skip
    api = "/api/v1/"
    cc = f"/codecarbon/{codecarbon.token}/"
    return [
        ("POST", f"{api}enrol/", _recorded("enrol_request")),
        ("POST", f"{api}login/", _recorded("login_request")),
        ("POST", f"{api}ingest/", {**_recorded("ingest_request"), "node": node}),
        ("POST", f"{api}nodes/problem/", {"message": "the data folder cannot be used"}),
        ("PUT", f"{api}runs/{NEW_RUN}/", {**_recorded("run_put"), "node": node, "fingerprint": told(), "tags": {"a": "b"}, "estimate": NEW_RUN}),
        ("PUT", f"{api}runs/{run}/", {**_recorded("run_put"), "node": node, "job": job}),
        ("PATCH", f"{api}runs/{run}/", {**_recorded("run_patch"), "fingerprint": told(), "metrics": {"loss": 0.1}}),
        ("POST", f"{api}runs/{run}/metrics/", {"points": [["loss", 1, 0.5, None], ["a", 2, "NaN", "2026-11-02T08:00:00Z"]]}),
        ("POST", f"{api}runs/bulk/", {"runs": [bulk, bulk]}),
        ("POST", f"{api}artifacts/", {"node": node, "artifacts": [artifact]}),
        ("POST", f"{api}artifacts/copies/", {"node": node, "copies": [{"path": "/a", "state": "missing"}]}),
        ("POST", f"{api}artifacts/copies/space/", {"node": node, "copies": [{"path": "/a", "own_bytes": 4, "shared": [{"key": digest("new"), "bytes": 8, "copies": 2}]}]}),
        ("POST", f"{api}artifacts/plans/{plan.uuid}/outcomes/", {"lines": [{"line": item.pk, "outcome": "trashed", "word": ""}]}),
        ("POST", f"{api}assets/", {"name": "Card", "kind": "gpu", "model": "A100-SXM4-80GB", "serial": "S", "tag": "T",
                                   "price_ucurrency": 1, "currency": "EUR", "in_use_since": "2026-03-01T00:00:00Z",
                                   "opening": opening}),
        ("PATCH", f"{api}assets/{asset.pk}/", {"name": "Card", "serial": "S", "note": "n", "price_ucurrency": 5, "currency": "EUR"}),
        ("POST", f"{api}assets/{asset.pk}/events/", {"kind": "dispose", "at": "2026-11-01T00:00:00Z", "counterpart": "R", "evidence": "E"}),
        ("POST", f"{api}assets/{asset.pk}/events/{event.pk}/reverse/", {"note": "found again"}),
        ("POST", f"{api}assets/import/", {"name": "a"}),
        ("POST", f"{api}activity/", {"kind": "cloud_compute", "name": "n", "project": "demo", "from": "2026-10-01T00:00:00Z", "to": "2026-10-02T00:00:00Z",
                                     "zone": "DE", "pue": 1.2, "external_id": "x", "inputs": {"provider": "aws", "hours": 1, "utilization": 50, "vcpus": 2, "instance_type": "m"}}),
        ("POST", f"{api}plan/job/", {"model": {"costs": {"name": "m", "input": "3x32x32", "parameters": 5, "macs": 7}},
                                     "work": {"samples": 9, "epochs": 2, "batch": 3}, "place": {"node": node, "gpu": "A100"},
                                     "training": {"trainable": "full", "gpus": 1}, "project": "demo", "fingerprint": told(),
                                     "like_run": run, "probe": {"measured_us": 90_000_000, "steps": {"measured": 9, "mean_us": 5}},
                                     "serving": {"requests_per_day": 9, "benchmark": "bert-99"}, "store": True}),
        ("POST", f"{api}preflight/", {"fingerprint": told(), "project": "demo", "name": "train", "run": NEW_RUN,
                                      "external": {"tool": "mlflow", "value": "x"}, "job": "hpc/7", "tags": {"task": "cats"}}),
        ("POST", f"{api}plan/sweep/", {"format": "json", "text": '{"lr": [0.1, 0.2]}', "base": str(run), "project": "demo", "random_runs": 2}),
        ("POST", f"{api}preflight/{check.uuid}/outcome/", {"outcome": "went_on", "reason": "r"}),
        ("POST", f"{cc}runs", {"experiment_id": "x", "timestamp": "2026-11-02T08:00:00", "cpu_model": "c", "gpu_count": 1}),
        ("POST", f"{cc}emissions", emission(run, at_us=now_us(), gpu=0.001)),
        ("POST", f"{cc}emissions-data", {**emission(run, at_us=now_us()), "project_name": "p", "emissions": 0.1}),
    ]  # fmt: skip


def _recorded(name: str) -> Any:
    return json.loads((CONTRACT / f"{name}.json").read_text(encoding="utf-8"))
