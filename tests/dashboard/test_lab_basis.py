"""/settings/basis/: the lab's basis, a preview of a change, and the change."""

import pytest
from django.test import Client

from apps.accounts.models import AuditEntry, Lab
from apps.carbon.providers.models import GridProvider
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site
from tests.builders import T0, SmallLab
from tests.dashboard.support import (
    HOSTILE,
    PERIOD,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    figures_on,
    queries,
    text_of,
    use,
)

pytestmark = pytest.mark.django_db
PATH = "/settings/basis/"


def basis_of(lab: SmallLab) -> str:
    return Lab.objects.get(pk=lab.lab.pk).basis


def add_site(lab: SmallLab, name: str, zone: str) -> int:
    site = create_site(
        lab=lab.lab, name=name, kind=SiteKind.WORKSTATION, zone=zone, by=lab.owner, now=T0
    )
    return site.pk


def test_the_preview_names_sites_without_a_factor_and_changes_nothing(
    owner: Client, lab: SmallLab
) -> None:
    add_site(lab, "Tokyo office", "JP")
    GridProvider.objects.create(lab=lab.lab, kind="energy_charts", zone="DE", created_us=1)
    page = text_of(owner.get(f"{PATH}?basis=direct"))
    unpriced = page.split("data-unpriced")[1].split("</p>")[0]
    assert "Tokyo office" in unpriced
    assert lab.site.name not in unpriced
    assert "no direct factor" in unpriced
    assert "data-stopped" in page
    assert 'data-preview="direct"' in page
    assert basis_of(lab) == "lifecycle"


def test_a_confirmed_change_is_recorded_and_reprices_the_pages(
    owner: Client, lab: SmallLab
) -> None:
    use(lab)
    before = figures_on(text_of(owner.get(f"/?{PERIOD}")))
    response = owner.post(PATH, {"basis": "direct"})
    assert response.status_code == 302
    assert basis_of(lab) == "direct"
    after = figures_on(text_of(owner.get(f"/?{PERIOD}")))
    emissions = [query for query, _ in after if "emission_ug" in query]
    assert emissions
    assert all("basis=direct" in query for query in emissions)
    assert before != after
    entry = AuditEntry.objects.filter(lab=lab.lab, action="lab.changed").latest("sequence")
    assert entry.details == {"basis": {"from": "lifecycle", "to": "direct"}}
    assert "data-unchanged" in text_of(owner.get(f"{PATH}?basis=direct"))


def test_other_labs_keep_their_basis(owner: Client, outsider: Client, lab: SmallLab) -> None:
    owner.post(PATH, {"basis": "direct"})
    assert 'data-basis="lifecycle"' in text_of(outsider.get(PATH))
    assert lab.site.name not in text_of(outsider.get(f"{PATH}?basis=direct"))


def test_only_admins_change_it(viewer: Client, member: Client, lab: SmallLab) -> None:
    for client in (viewer, member):
        assert "Only an admin" in text_of(client.get(PATH))
        assert client.get(f"{PATH}?basis=direct").status_code == 403
        assert client.post(PATH, {"basis": "direct"}).status_code == 403
    assert basis_of(lab) == "lifecycle"


@pytest.mark.parametrize("data", [{}, {"basis": ""}, {"basis": "market"}, {"basis": HOSTILE}])
def test_invalid_input_is_refused(owner: Client, lab: SmallLab, data: dict[str, str]) -> None:
    response = owner.post(PATH, data)
    assert response.status_code == 400
    page = text_of(response)
    assert fields_with_errors(page) == ["basis"]
    assert "<script>alert" not in page
    assert owner.get(f"{PATH}?basis=market").status_code == 400
    assert basis_of(lab) == "lifecycle"


def test_wrong_method_and_sign_in(owner: Client) -> None:
    assert_needs_sign_in(PATH)
    assert_only(owner, PATH, "GET", "POST")


def test_the_number_of_queries_does_not_depend_on_the_sites(owner: Client, lab: SmallLab) -> None:
    address = f"{PATH}?basis=direct"
    text_of(owner.get(address))
    few = queries(owner, address)
    for number in range(5):
        add_site(lab, f"Office {number}", "JP" if number % 2 else "FR")
    assert queries(owner, address) == few
