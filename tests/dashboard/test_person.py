"""What one person used: seen by themselves and by those whom the lab's policy lets."""

from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Membership, User
from apps.attribution.services.rules import Criteria, drafted_rule, make_rule
from apps.core.jobs import run_until_idle
from tests.builders import T0, SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    text_of,
)
from tests.dashboard.test_unattributed import used


def _ada(lab: SmallLab) -> tuple[User, Client]:
    ada = User.objects.create_user(username="ada.lovelace")
    Membership.objects.create(lab=lab.lab, user=ada, role=Role.MEMBER)
    for project, os_user in ((None, "ada"), (lab.lab.projects.get(), "ada2")):
        rule = drafted_rule(
            lab=lab.lab, criteria=Criteria(os_user=os_user), project=project, person=ada, from_us=0
        )
        make_rule(rule=rule, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    return ada, client_of(ada)


def test_energy_by_project_that_explains_itself(lab: SmallLab, owner: Client) -> None:
    ada, own = _ada(lab)
    used(lab, ["proc:ada/x", "proc:ada2/x", "proc:ben/x"])
    for client in (owner, own):
        page = text_of(client.get(f"/people/{ada.pk}/?{PERIOD}"))
        assert 'data-value="6000000"' in page
        assert "<code>ada</code>, <code>ada2</code>" in page
        assert "Demo" in page
        assert assert_each_figure_explains_itself(client, page) == 10
    listed = text_of(owner.get(f"/people/?{PERIOD}"))
    assert f'href="/people/{ada.pk}/"' in listed
    assert 'data-value="6000000"' in listed
    assert "ada, ada2" in listed


def test_others_are_not_shown(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    ada, own = _ada(lab)
    used(lab, ["proc:ada/x"])
    assert viewer.get(f"/people/{ada.pk}/").status_code == 403
    assert own.get(f"/people/{lab.owner.pk}/").status_code == 403
    assert outsider.get(f"/people/{ada.pk}/").status_code == 404
    listed = text_of(viewer.get(f"/people/?{PERIOD}"))
    assert "3000000" not in listed
    assert f'href="/people/{ada.pk}/"' not in listed
    asked = f"/explain/?metric=energy_mj&subject=person:{ada.pk}&from=2026-11-01&to=2026-11-10"
    assert viewer.get(asked).status_code == 403
    assert viewer.get(asked.replace("/explain/", "/api/v1/figures/")).status_code == 403
    assert owner.get(asked.replace("/explain/", "/api/v1/figures/")).json()["value"] == 3_000_000


def test_empty_methods_sign_in(lab: SmallLab, owner: Client) -> None:
    assert 'data-measured="no"' in text_of(owner.get(f"/people/{lab.owner.pk}/"))
    assert_needs_sign_in(f"/people/{lab.owner.pk}/")
    assert_only(owner, f"/people/{lab.owner.pk}/", "GET")
