"""What tests of CodeCarbon share: a token, a client that posts as it does, and its messages."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.http import HttpResponse
from django.test import Client

from apps.accounts.models import Project
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.units import PPM
from apps.fleet.models import Node
from apps.ingest.models import Batch, EnergyWindow
from apps.trackers.codecarbon.models import CodeCarbonSource
from apps.trackers.codecarbon.services.tokens import create_codecarbon_token
from tests.builders import T0, SmallLab

HARDWARE = {
    "os": "Linux-6.1", "python_version": "3.11.2", "codecarbon_version": "3.3.2", "cpu_count": 16,
    "cpu_model": "AMD EPYC 7302", "gpu_count": 2, "gpu_model": "2 x NVIDIA A100", "longitude": 8.7,
    "latitude": 50.1, "region": None, "provider": None, "ram_total_size": 128.0,
    "tracking_mode": "machine",
}  # fmt: skip


@dataclass
class Tracker:
    """Posts with one token, as CodeCarbon does."""

    source: CodeCarbonSource
    token: str
    client: Client = field(default_factory=Client)

    def post(self, door: str, body: Any, **headers: str) -> HttpResponse:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        path = (
            f"/codecarbon/{self.token}{door}"
            if "x-api-token" not in headers
            else f"/codecarbon{door}"
        )
        return self.client.generic(
            "POST", path, content, content_type="application/json", headers=headers
        )  # type: ignore[return-value]

    def begin(self, **facts: Any) -> str:
        answer = self.post(
            "/runs", {"timestamp": iso(T0), "experiment_id": str(uuid.uuid4()), **HARDWARE, **facts}
        )
        assert answer.status_code == 201, answer.content
        return str(msgspec.json.decode(answer.content)["id"])

    def emit(self, run: str, **told: Any) -> None:
        answer = self.post("/emissions", emission(run, **told))
        assert answer.status_code == 201, answer.content


def tracker(
    lab: SmallLab, *, node: Node | None = None, pue_ppm: int = PPM, name: str = "notebooks"
) -> Tracker:
    """Return a client with a token of the lab's project ``demo``; bound to ``node`` if there is
    one.
    """
    source, text = create_codecarbon_token(
        lab=lab.lab,
        name=name,
        project=Project.objects.get(lab=lab.lab, slug="demo"),
        node=node,
        site=None if node else lab.site,
        client_pue_ppm=pue_ppm,
        expires_us=None,
        by=lab.owner,
        now=now_us(),
    )
    return Tracker(source, text)


def iso(time_us: int) -> str:
    """Return a moment as the client writes it: local time with its offset."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)).isoformat()


def emission(
    run: str, *, at_us: int, duration: int = 120, gpu: float = 0, cpu: float = 0, ram: float = 0
) -> dict[str, Any]:
    """Return one interval as CodeCarbon posts it: kWh, deltas."""
    energy = gpu + cpu + ram
    return {
        "timestamp": iso(at_us),
        "run_id": run,
        "duration": duration,
        "emissions_sum": energy * 0.4,
        "emissions_rate": 1e-6,
        "cpu_power": 90.0,
        "gpu_power": 300.0,
        "ram_power": 5.0,
        "cpu_energy": cpu,
        "gpu_energy": gpu,
        "ram_energy": ram,
        "energy_consumed": energy,
        "cpu_utilization_percent": 40.0,
        "gpu_utilization_percent": 90.0,
        "ram_utilization_percent": 20.0,
        "wue": 0,
    }


def work() -> None:
    """Do all jobs that are due now."""
    run_until_idle(worker="test")


def stored(source: CodeCarbonSource) -> list[tuple[str, int, int, int]]:
    """Return (component, start, end, mJ) of the windows of a token."""
    rows = EnergyWindow.objects.filter(
        batch__in=Batch.objects.filter(origin__startswith="CodeCarbon"), node=source.node
    )
    found = rows.values_list("device__facts__component", "start_us", "end_us", "energy_mj")
    return sorted(found, key=lambda row: (row[1], row[0]))
