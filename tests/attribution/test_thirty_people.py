"""A PI's first day: thirty people, an account of the cluster each, a few workstations, and
nobody wraps a command.
"""

import random
import uuid
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Membership, User
from apps.accounts.services.labs import create_project
from apps.carbon.figures.energy import figures_by
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.dashboard.periods import Period, lab_query
from apps.fleet.services import register_node
from apps.ingest.window_rules import job_run
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import T0, SmallLab, W, push
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOUR, PERIOD, text_of

pytestmark = pytest.mark.django_db
PEOPLE = [f"person{number:02d}" for number in range(30)]
PROJECTS = ("vision", "speech", "genomics", "robots", "methods")
HOURS = 24


def _a_day(lab: SmallLab) -> None:
    """24 hours on eight GPUs of a cluster node and two workstations: jobs, programs, a little
    that nobody names.
    """
    dice = random.Random(20261102)
    server = register_node(
        lab=lab.lab, uuid=uuid.uuid4(), hostname="gpu-01", facts={}, site=lab.site, now=T0
    )
    desks = [
        register_node(
            lab=lab.lab, uuid=uuid.uuid4(), hostname=f"ws-{name}", facts={}, site=lab.site, now=T0
        )
        for name in ("vision", "shared")
    ]
    job = 1000
    for gpu in range(8):
        windows = []
        for hour in range(HOURS):
            job += 1
            person = dice.choice(PEOPLE)
            facts = RunFacts(
                name="train.sh",
                started_us=T0 + hour * US_PER_HOUR,
                os_user=person,
                node_uuid=server.uuid,
            )
            run, _ = put_run(
                lab=lab.lab,
                uuid=job_run(f"hpc/{job}"),
                facts=facts,
                by=None,
                bound_node=server.uuid,
            )
            told = {
                "scheduler": "slurm",
                "cluster": "hpc",
                "job_id": str(job),
                "account": f"acct-{person}",
            }
            Run.objects.filter(pk=run.pk).update(**told)
            energy = dice.randint(700_000_000, 1_200_000_000)
            windows.append(_window(f"gpu:GPU-{gpu}", hour, energy, f"job:hpc/{job}"))
        _push(server, windows)
    for desk, who in zip(
        desks,
        (lambda: "proc:person03/python3", lambda: f"proc:{dice.choice(PEOPLE)}/jupyter-lab"),
        strict=True,
    ):
        _push(
            desk,
            [_window(f"gpu:{desk.hostname}", hour, 900_000_000, who()) for hour in range(HOURS)],
        )
    strays = ("unknown", "container:4f0ad1c2b3", "proc:guest/blender")
    _push(
        desks[1],
        [_window("gpu:stray", hour, 1_500_000_000 // 3, strays[hour % 3]) for hour in range(HOURS)],
    )


def _window(device: str, hour: int, energy_mj: int, consumer: str) -> W:
    start = T0 + hour * US_PER_HOUR
    return W(
        device,
        energy_mj,
        start,
        start + US_PER_HOUR,
        hour,
        ((consumer, energy_mj),),
        None,
        "nvml_power",
    )


def _push(node: object, windows: list[W]) -> None:
    now = T0 + (HOURS + 1) * US_PER_HOUR
    answers = push(node, windows, sent_at=now, received_us=now, settle=False)  # type: ignore[arg-type]
    assert answers == [["accepted"]] * len(windows)


def _shares(lab: SmallLab) -> dict[str, int]:
    period = Period(HOUR, HOUR + HOURS, ZoneInfo("UTC"))
    return {
        charge: part.energy_mj
        for (charge,), part in figures_by(lab.lab, lab_query(lab.lab, period), ["charge"]).items()
    }


def test_ninety_per_cent_is_attributed_without_a_wrapped_command_and_the_rest_claimed_in_three_acts(
    lab: SmallLab,
) -> None:
    for slug in PROJECTS:
        create_project(lab=lab.lab, slug=slug, name=slug.title(), now=T0)
    pi = User.objects.create_user(username="pi")
    Membership.objects.create(lab=lab.lab, user=pi, role=Role.PI)
    client: Client = client_of(pi)
    lines = ["account,os_user,node,project,from_day"]
    lines += [f"acct-{person},,,{PROJECTS[i % 5]},2026-11-01" for i, person in enumerate(PEOPLE)]
    lines += [f",{person},,{PROJECTS[i % 5]},2026-11-01" for i, person in enumerate(PEOPLE)]
    lines += [",person03,ws-vision,vision,2026-11-01"]
    _a_day(lab)
    run_until_idle(worker="test")
    assert set(_shares(lab)) == {"~unattributed"}
    answer = client.post("/rules/import/", {"lines": "\n".join(lines), "action": "create"})
    assert answer.status_code == 302, text_of(answer)
    run_until_idle(worker="test")
    shares = _shares(lab)
    whole = sum(shares.values())
    assert 100 * (whole - shares["~unattributed"]) >= 90 * whole
    assert set(shares) == {*PROJECTS, "~unattributed"}
    page = text_of(client.get(f"/unattributed/?{PERIOD}"))
    found = {"\tcontainer:4f0ad1c2b3": "robots", "guest\tblender": "vision", "\t": "methods"}
    assert page.count('name="item"') == len(found)
    for line, project in found.items():
        assert (
            client.post(
                f"/unattributed/?{PERIOD}", {"item": [line], "project": project}
            ).status_code
            == 302
        )
    after = _shares(lab)
    assert "~unattributed" not in after
    assert sum(after.values()) == whole
    assert 'data-unattributed="0"' in text_of(client.get(f"/unattributed/?{PERIOD}"))


@pytest.fixture
def lab(db: None) -> SmallLab:
    from tests.builders import small_lab

    return small_lab()
