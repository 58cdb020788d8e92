"""Pages of asset sources: add, review, update, dismiss, accept a loss; other labs and roles."""

from typing import Any

import pytest
from django.test import Client, override_settings

from apps.accounts.choices import Role
from apps.assets.models import Asset
from apps.pollers.models import AssetSource
from apps.pollers.services.poll import poll_source
from tests.api.conftest import add_person
from tests.builders import SmallLab, small_lab
from tests.fakes.asset_servers import TOKEN, fake_assets
from tests.pollers.conftest import Start

BACKEND = "django.contrib.auth.backends.ModelBackend"


def client_of(user: Any) -> Client:
    client = Client()
    client.force_login(user, backend=BACKEND)
    return client


def poll(source: AssetSource) -> None:
    poll_source(AssetSource.objects.select_related("lab", "pending_import").get(pk=source.pk))


def page_of(client: Client, source: AssetSource) -> str:
    response = client.get(f"/assets/sources/{source.pk}/")
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def submit(client: Client, source: AssetSource, action: str, *items: int) -> int:
    data = {"action": action, "item": [str(item) for item in items]}
    return client.post(f"/assets/sources/{source.pk}/", data).status_code


def test_added_from_the_list_of_permitted_addresses(lab: SmallLab) -> None:
    client = client_of(lab.owner)
    assert 'data-empty="addresses"' in client.get("/assets/sources/").content.decode()
    with fake_assets("netbox") as fake, override_settings(ASSET_SOURCES=(fake.address,)):
        form = {
            "system": "netbox",
            "address": fake.address,
            "name": "NetBox",
            "token": TOKEN,
            "policy": "propose",
            "bought_on": "2024-05-01",
        }
        for field, value in (
            ("address", "http://169.254.169.254"), ("token", ""), ("bought_on", ""), ("name", ""),
            ("policy", "retire"),
        ):  # fmt: skip
            answer = client.post("/assets/sources/", {**form, field: value})
            assert answer.status_code == 400
            assert f'data-field-error="{field}"' in answer.content.decode()
        assert client.post("/assets/sources/", form).status_code == 302
        source = AssetSource.objects.get()
        page = page_of(client, source)
        assert "data-untried" in page
        assert TOKEN not in page
        assert source.token not in page
        poll(source)
        page = page_of(client, source)
    assert "data-untried" not in page
    assert 'data-rows="new" data-count="3"' in page
    assert 'data-rows="problems" data-count="2"' in page


def test_reviewed_and_registered(start: Start, lab: SmallLab) -> None:
    _, source = start()
    client = client_of(lab.owner)
    poll(source)
    source.refresh_from_db()
    pending = source.pending_import
    assert pending is not None
    address = f"/assets/import/{pending.uuid}/"
    assert address in page_of(client, source)
    assert client.post(address, {"action": "register"}).status_code == 302
    poll(source)
    assert 'data-linked="3"' in page_of(client, source)
    assert Asset.objects.count() == 3


def test_changes_are_updated_or_dismissed(start: Start, lab: SmallLab) -> None:
    fake, source = start(policy="apply")
    client = client_of(lab.owner)
    poll(source)
    AssetSource.objects.filter(pk=source.pk).update(policy="propose")
    fake.rows[0] |= {"name": "renamed", "status": {"value": "offline"}}
    fake.rows[2] |= {"serial": "NEW"}
    poll(source)
    page = page_of(client, source)
    assert 'data-rows="changed" data-count="2"' in page
    assert (page.count('data-fact="yes"'), page.count('data-fact="no"')) == (2, 1)
    assert submit(client, source, "update") == 400  # nothing selected
    assert submit(client, source, "update", 1, 10**30, 4) == 302
    assert Asset.objects.filter(name="renamed").count() == 1
    assert submit(client, source, "dismiss", 1, 3) == 302
    assert 'data-rows="changed"' not in page_of(client, source)
    assert Asset.objects.filter(serial="NEW").count() == 0


def test_a_loss_is_reported_on_its_page_and_the_overview(start: Start, lab: SmallLab) -> None:
    fake, source = start(policy="apply")
    client = client_of(lab.owner)
    poll(source)
    whole, fake.rows = fake.rows, fake.rows[:2]
    poll(source)
    assert 'data-halted="3"' in page_of(client, source)
    assert f"/assets/sources/{source.pk}/" in client.get("/").content.decode()
    assert submit(client, source, "accept-loss") == 302
    poll(source)
    assert 'data-rows="vanished" data-count="3"' in page_of(client, source)
    assert Asset.objects.filter(state="use").count() == 2
    assert submit(client, source, "forget", 3) == 302
    assert 'data-rows="vanished" data-count="2"' in page_of(client, source)
    assert Asset.objects.count() == 3
    fake.rows = whole
    poll(source)
    assert 'data-rows="vanished"' not in page_of(client, source)
    assert Asset.objects.count() == 3


def test_ignored_enabled_changed_removed(start: Start, lab: SmallLab) -> None:
    _, source = start()
    client = client_of(lab.owner)
    poll(source)
    assert submit(client, source, "ignore", 3, 5) == 302
    assert 'data-rows="ignored" data-count="2"' in page_of(client, source)
    assert submit(client, source, "include", 3) == 302
    assert 'data-rows="ignored" data-count="1"' in page_of(client, source)
    assert submit(client, source, "off") == 302
    assert 'data-state="killed"' in page_of(client, source)
    assert submit(client, source, "on") == 302
    form = {
        "action": "save",
        "name": "Renamed",
        "policy": "apply",
        "bought_on": "2023-01-01",
        "address": "http://169.254.169.254",
    }
    assert client.post(f"/assets/sources/{source.pk}/", form).status_code == 302
    before = source.address
    source.refresh_from_db()
    assert (source.name, source.policy, source.address) == ("Renamed", "apply", before)
    assert submit(client, source, "remove") == 302
    assert client.get(f"/assets/sources/{source.pk}/").status_code == 404


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
def test_other_roles_and_labs(start: Start, lab: SmallLab, role: Role) -> None:
    _, source = start()
    client = client_of(add_person(lab, role))
    for path in ("/assets/sources/", f"/assets/sources/{source.pk}/"):
        assert client.get(path).status_code == 403
        assert client.post(path, {"action": "remove"}).status_code == 403
    outsider = client_of(small_lab(name="Theirs").owner)
    assert outsider.get(f"/assets/sources/{source.pk}/").status_code == 404
    assert submit(outsider, source, "remove") == 404
    assert AssetSource.objects.filter(removed_us=None).count() == 1


def test_rows_of_another_source_cannot_be_named(start: Start, lab: SmallLab) -> None:
    fake, source = start(policy="apply")
    poll(source)
    fake.rows[0] |= {"name": "renamed"}
    AssetSource.objects.filter(pk=source.pk).update(policy="propose")
    poll(source)
    _, other = start("snipe_it", name="Other")
    assert submit(client_of(lab.owner), other, "update", 1) == 302
    assert Asset.objects.filter(name="renamed").count() == 0
