"""/settings/: the lab's own settings."""

import re

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Lab
from apps.carbon.figures.cost import cost_of
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.models import SitePrice
from apps.fleet.services import set_price, withdraw_site_fact
from tests.api.conftest import add_person
from tests.builders import T0, SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    HOUR,
    assert_needs_sign_in,
    assert_only,
    text_of,
    use,
)

FORM = {"lab": "Cell Lab", "time_zone": "Europe/Berlin", "person_view": "pi"}


def _lab(lab: SmallLab) -> Lab:
    return Lab.objects.get(pk=lab.lab.pk)


def test_each_change_is_made_and_dated(lab: SmallLab, owner: Client) -> None:
    before = now_us()
    changed = {"lab": " Atlas Lab ", "time_zone": "Asia/Kolkata", "person_view": "own"}
    assert owner.post("/settings/", changed)["Location"] == "/settings/"
    found = _lab(lab)
    assert (found.name, found.time_zone, found.person_view, found.slug) == (
        "Atlas Lab",
        "Asia/Kolkata",
        "own",
        "cell-lab",
    )
    row = AuditEntry.objects.get(action="lab.changed")
    assert row.at_us >= before
    assert row.details == {
        "name": {"from": "Cell Lab", "to": "Atlas Lab"},
        "time_zone": {"from": "Europe/Berlin", "to": "Asia/Kolkata"},
        "person_view": {"from": "pi", "to": "own"},
    }
    page = text_of(owner.get("/settings/"))
    assert "Settings of Atlas Lab" in page
    assert "Settings saved." in page
    assert 'data-policy="own"' in text_of(owner.get("/people/"))
    assert "pi → own" in text_of(owner.get("/audit/"))


def test_nothing_different_is_no_act(lab: SmallLab, owner: Client) -> None:
    owner.post("/settings/", FORM)
    assert not AuditEntry.objects.filter(action="lab.changed").exists()
    assert "Settings unchanged." in text_of(owner.get("/settings/"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lab": " "}, ""),
        ({"lab": "x" * 201}, "200"),
        ({"time_zone": "Berlin"}, "Did you mean Europe/Berlin"),
        ({"time_zone": "\x00"}, ""),
        ({"person_view": "all"}, "all"),
        ({"person_view": ""}, ""),
        ({"profile": "free"}, "free"),
        ({"currency": "XXX"}, "XXX"),
        ({"currency": "eur"}, "eur"),
        ({"lab": "", "person_view": "all"}, ""),
    ],
)
def test_bad_input_changes_nothing_and_is_shown_at_its_field(
    lab: SmallLab, owner: Client, change: dict[str, str], text: str
) -> None:
    response = owner.post("/settings/", {**FORM, "lab": "Other name", **change})
    assert response.status_code == 400
    page = text_of(response)
    assert set(re.findall(r'data-field-error="(\w+)"', page)) == set(change)
    assert text in page
    assert _lab(lab).name == "Cell Lab"
    assert not AuditEntry.objects.filter(action="lab.changed").exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.PI])
def test_others_look(lab: SmallLab, role: Role) -> None:
    client = client_of(add_person(lab, role))
    page = text_of(client.get("/settings/"))
    assert "Europe/Berlin" in page
    assert "<fieldset" not in page
    assert client.post("/settings/", {**FORM, "person_view": "lab"}).status_code == 403
    assert _lab(lab).person_view == "pi"


def _price(lab: SmallLab, currency: str, hour: int = HOUR - 5) -> SitePrice:
    price = set_price(
        site=lab.site,
        ucurrency_per_kwh=310_000_000,
        currency=currency,
        from_us=hour * US_PER_HOUR,
        by=lab.owner,
        now=T0,
    )
    run_until_idle(worker="test")
    return price


def test_an_admin_chooses_the_currency_and_no_amount_is_converted(
    lab: SmallLab, owner: Client
) -> None:
    [run] = use(lab)
    _price(lab, "EUR")
    query = FigureQuery(COST, HOUR - 5, HOUR + 5)
    assert figure(_lab(lab), query).cost_ucurrency == 861_111
    assert 'value="first_price" selected' in text_of(owner.get("/settings/"))
    assert owner.post("/settings/", {**FORM, "currency": "CHF"}).status_code == 302
    found = _lab(lab)
    assert (found.currency, found.is_currency_chosen) == ("CHF", True)
    assert SitePrice.objects.get().currency == "EUR"
    whole = figure(found, query)
    assert (whole.cost_ucurrency, whole.without_price_mj) == (0, whole.energy_mj)
    cost = cost_of(found, query)
    assert [(other.currency, other.cost_ucurrency) for other in cost.others] == [("EUR", 861_111)]
    page = text_of(owner.get("/runs/?show=cost"))
    assert 'data-other-currency="EUR"' in page
    assert str(run) in page
    row = AuditEntry.objects.get(action="lab.changed")
    assert row.details == {
        "currency": {"from": "EUR", "to": "CHF"},
        "is_currency_chosen": {"from": False, "to": True},
    }
    page = text_of(owner.get("/settings/"))
    assert 'value="CHF" selected' in page
    assert "EUR → CHF" in text_of(owner.get("/audit/"))


def test_a_chosen_currency_stays_when_prices_come_and_go(lab: SmallLab, owner: Client) -> None:
    owner.post("/settings/", {**FORM, "currency": "CHF"})
    price = _price(lab, "EUR")
    assert _lab(lab).currency == "CHF"
    withdraw_site_fact(fact=price, by=lab.owner, now=T0)
    assert _lab(lab).currency == "CHF"
    _price(lab, "SEK")
    owner.post("/settings/", {**FORM, "currency": "first_price"})
    found = _lab(lab)
    assert (found.currency, found.is_currency_chosen) == ("SEK", False)
    owner.post("/settings/", FORM)  # a form without the field
    assert _lab(lab).currency == "SEK"
    assert AuditEntry.objects.filter(action="lab.changed").count() == 2


def test_one_error_keeps_all_settings(lab: SmallLab, owner: Client) -> None:
    response = owner.post("/settings/", {**FORM, "time_zone": "Berlin", "currency": "CHF"})
    assert response.status_code == 400
    assert _lab(lab).currency == ""


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.PI])
def test_only_an_admin_chooses_the_currency(lab: SmallLab, role: Role) -> None:
    _price(lab, "EUR")
    client = client_of(add_person(lab, role))
    assert 'data-currency="EUR"' in text_of(client.get("/settings/"))
    assert client.post("/settings/", {**FORM, "currency": "CHF"}).status_code == 403
    assert (_lab(lab).currency, _lab(lab).is_currency_chosen) == ("EUR", False)
    assert not AuditEntry.objects.filter(action="lab.changed").exists()


def test_read_only_fields_stay(lab: SmallLab, owner: Client) -> None:
    owner.post(
        "/settings/",
        {
            **FORM,
            "lab": "New",
            "slug": "evil",
            "audit_sequence": "0",
            "audit_digest": "",
            "created_us": "1",
        },
    )
    found = _lab(lab)
    assert (found.slug, found.created_us) == ("cell-lab", lab.lab.created_us)
    assert found.audit_sequence == AuditEntry.objects.count()


def test_a_rename_reaches_no_other_lab(lab: SmallLab, outsider: Client) -> None:
    outsider.post("/settings/", {**FORM, "lab": "Mine now"})
    assert _lab(lab).name == "Cell Lab"
    assert Lab.objects.get(slug="other-lab").name == "Mine now"


def test_anonymous_wrong_method_csrf_and_hostile_names(lab: SmallLab, owner: Client) -> None:
    assert_needs_sign_in("/settings/")
    assert_only(owner, "/settings/", "GET", "POST")
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.owner)
    assert client.post("/settings/", FORM).status_code == 403
    owner.post("/settings/", {**FORM, "lab": HOSTILE})
    assert "<script>alert" not in text_of(owner.get("/settings/"))
