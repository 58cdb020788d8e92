"""Pages of grid providers: add, replace the token, disable, remove; other labs and roles."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.services import FETCH, connection_of
from apps.core.models import Job
from tests.api.conftest import add_person
from tests.builders import SmallLab, small_lab

LIST = "/factors/providers/"


def client_of(user: Any) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def text_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_added_changed_and_removed(lab: SmallLab) -> None:
    client = client_of(lab.owner)
    assert LIST in text_of(client, "/settings/")
    form = {"kind": "electricity_maps", "zone": "Germany", "token": "token-one"}
    for field, value in (("kind", "uk_carbon_intensity"), ("zone", "Atlantis"), ("token", "")):
        response = client.post(LIST, {**form, field: value})
        assert response.status_code == 400
        assert f'data-field-error="{field}"' in response.content.decode()
    assert client.post(LIST, form).status_code == 302
    row = GridProvider.objects.get()
    path = f"{LIST}{row.pk}/"
    page = text_of(client, path)
    assert "data-untried" in page
    assert "token-one" not in page
    assert row.token not in page
    assert "data-untried" in text_of(client, LIST)
    assert client.post(LIST, form).status_code == 400  # one provider of a zone
    assert client.post(path, {"action": "token", "token": ""}).status_code == 400
    assert client.post(path, {"action": "token", "token": "token-two"}).status_code == 302
    assert connection_of(GridProvider.objects.get()).token == "token-two"
    assert client.post(path, {"action": "off"}).status_code == 302
    assert 'data-state="killed"' in text_of(client, path)
    Job.objects.all().delete()
    assert client.post(path, {"action": "on"}).status_code == 302
    assert client.post(path, {"action": "fetch"}).status_code == 302
    assert Job.objects.filter(kind=FETCH).count() == 1
    assert 'value="remove"' not in text_of(client, path)
    assert 'value="remove"' in text_of(client, f"{path}?remove=1")
    assert client.post(path, {"action": "remove"}).status_code == 302
    assert client.get(path).status_code == 404


def test_failures_and_remarks_are_stated(lab: SmallLab) -> None:
    row = GridProvider.objects.create(
        lab=lab.lab, kind="energy_charts", zone="DE", created_us=1, problem="<b>broken</b>",
        message="3 readings were refused", failures=4, succeeded_us=5,
    )  # fmt: skip
    page = text_of(client_of(lab.owner), f"{LIST}{row.pk}/")
    assert "data-problem" in page
    assert "<b>broken" not in page
    assert "data-message" in page
    assert 'data-failures="4"' in page
    assert "data-untried" not in page
    assert "provider-token" not in page


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
def test_managers_only(lab: SmallLab, role: Role) -> None:
    row = GridProvider.objects.create(lab=lab.lab, kind="energy_charts", zone="DE", created_us=1)
    client = client_of(add_person(lab, role))
    for path in (LIST, f"{LIST}{row.pk}/"):
        assert client.get(path).status_code == 403
        assert client.post(path, {"action": "remove"}).status_code == 403
    outsider = client_of(small_lab(name="Other Lab").owner)
    assert outsider.get(f"{LIST}{row.pk}/").status_code == 404
    assert outsider.post(f"{LIST}{row.pk}/", {"action": "remove"}).status_code == 404
    row.refresh_from_db()
    assert row.removed_us is None
