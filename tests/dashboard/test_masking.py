"""Other people's names: shown to PIs, or to all, as the lab settled; else 'someone in your lab'
on every page and call.
"""

from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.choices import PersonView, Role
from apps.accounts.models import Lab, Membership, User
from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import T0, SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import PERIOD, gpu, text_of
from tests.dashboard.test_unattributed import used

NAME = "bartholomew"
RUN = uuid4()


def pages(lab: SmallLab) -> list[str]:
    figure = "metric=energy_mj&subject=lab&from=2026-11-01T00:00Z&to=2026-11-10T00:00Z"
    drill = f"{figure}&hour=2026-11-02T08:00Z&device={gpu()}"
    return [
        f"/?{PERIOD}",
        f"/projects/?{PERIOD}",
        f"/projects/demo/?{PERIOD}",
        "/runs/",
        f"/runs/{RUN}/",
        "/runs.csv",
        f"/explain/?{figure}",
        f"/explain/?{drill}",
        f"/explain/ledger.csv?{figure}",
        f"/unattributed/?{PERIOD}",
        "/nodes/",
        f"/nodes/{lab.node.uuid}/",
        "/api/v1/runs/",
        f"/api/v1/runs/{RUN}/",
        f"/api/v1/explain/?{figure}",
    ]


@pytest.fixture
def filled(lab: SmallLab) -> SmallLab:
    facts = RunFacts(name="r", started_us=T0, os_user=NAME, node_uuid=lab.node.uuid, project="demo")
    put_run(lab=lab.lab, uuid=RUN, facts=facts, by=None, bound_node=None)
    used(lab, [f"run:{RUN}", f"proc:{NAME}/secret-tool", f"container:{NAME}/0123456789ab"])
    return lab


def _person(lab: SmallLab, role: Role) -> Client:
    user = User.objects.create_user(username=f"x{uuid4().hex[:6]}")
    Membership.objects.create(lab=lab.lab, user=user, role=role)
    return client_of(user)


VIEWS = (
    (PersonView.OWN, Role.MEMBER, False), (PersonView.OWN, Role.PI, False),
    (PersonView.OWN, Role.ADMIN, False), (PersonView.PI, Role.VIEWER, False),
    (PersonView.PI, Role.MEMBER, False), (PersonView.PI, Role.PI, True),
    (PersonView.LAB, Role.VIEWER, True),
)  # fmt: skip


def test_names_on_every_page_and_call(filled: SmallLab, subtests: pytest.Subtests) -> None:
    for policy, role, shown in VIEWS:
        with subtests.test(policy=policy, role=role):
            _names_on_every_page_and_call(filled, policy, role, shown)


def _names_on_every_page_and_call(filled: SmallLab, policy: str, role: Role, shown: bool) -> None:
    Lab.objects.filter(pk=filled.lab.pk).update(person_view=policy)
    client = _person(filled, role)
    seen = False
    for address in pages(filled):
        response = client.get(address)
        assert response.status_code == 200, address
        text = text_of(response)
        if not shown:
            assert NAME not in text, address
            assert "secret-tool" not in text, address
            assert "0123456789ab" not in text, address
        seen = seen or NAME in text
    assert seen == shown


def test_a_member_sees_their_own_run_by_token(filled: SmallLab) -> None:
    user = User.objects.create_user(username="own")
    Membership.objects.create(lab=filled.lab, user=user, role=Role.MEMBER)
    mine = uuid4()
    facts = RunFacts(name="mine", started_us=T0, os_user="mylogin")
    put_run(lab=filled.lab, uuid=mine, facts=facts, by=user, bound_node=None)
    bearer = {
        "Authorization": f"Bearer {issue_user_token(lab=filled.lab, user=user, now=now_us())}"
    }
    assert Client().get(f"/api/v1/runs/{mine}/", headers=bearer).json()["os_user"] == "mylogin"
    assert Client().get(f"/api/v1/runs/{RUN}/", headers=bearer).json()["os_user"] is None
