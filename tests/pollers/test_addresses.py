"""A lab cannot lead the server to an address that its administrator does not list."""

import pytest
from django.test import override_settings

from apps.core.errors import InvalidInput
from apps.pollers.choices import System
from apps.pollers.models import AssetSource
from apps.pollers.services.poll import poll_source
from apps.pollers.services.sources import SourceInput, add_source
from tests.builders import T0, SmallLab
from tests.pollers.conftest import Start


def values(address: str) -> SourceInput:
    return SourceInput(
        System.NETBOX,
        "NetBox",
        address,
        token="t",
        bought_on="2024-05-01",
    )


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:8000",
        "http://169.254.169.254",
        "https://netbox.example.org.evil.example",
        "https://netbox.example.org:444",
        "https://netbox.example.org/api/../../other",
        "http://netbox.example.org",
        "https://user@netbox.example.org",
        "file:///etc/passwd",
    ],
)
def test_other_addresses_are_refused(lab: SmallLab, address: str) -> None:
    listed = override_settings(ASSET_SOURCES=("https://netbox.example.org",))
    with listed, pytest.raises(InvalidInput) as refused:
        add_source(lab=lab.lab, values=values(address), by=lab.owner, now=T0)
    assert refused.value.field == "address"
    assert AssetSource.objects.count() == 0


def test_nothing_is_permitted_by_default(lab: SmallLab) -> None:
    with pytest.raises(InvalidInput) as refused:
        add_source(lab=lab.lab, values=values("http://127.0.0.1:8000"), by=lab.owner, now=T0)
    assert "LABCARBON_ASSET_SOURCES" in refused.value.hint


def test_an_address_that_was_removed_from_the_list_is_not_polled(start: Start) -> None:
    fake, source = start()
    with override_settings(ASSET_SOURCES=()):
        poll_source(source)
    source.refresh_from_db()
    assert "is not permitted" in source.problem
    assert fake.requests == []


def test_a_listed_name_never_leads_to_the_metadata_service(start: Start) -> None:
    _, source = start()
    address = "http://169.254.169.254"
    AssetSource.objects.filter(pk=source.pk).update(address=address)
    source.refresh_from_db()
    with override_settings(ASSET_SOURCES=(address,)):
        poll_source(source)
    source.refresh_from_db()
    assert "not a server address" in source.problem


def test_links_to_further_pages_are_not_followed(start: Start) -> None:
    fake, source = start()
    fake.max_page = 2  # the fake names another server in ``next``
    poll_source(source)
    source.refresh_from_db()
    assert source.problem == ""
    assert source.rows.count() == len(fake.rows)


def test_a_redirect_is_not_followed_and_the_token_stays(start: Start) -> None:
    fake, source = start()
    fake.fault = (307, {"Location": f"{fake.address}/other"}, b"")
    poll_source(source)
    source.refresh_from_db()
    assert "Redirects are not followed" in source.problem
    assert [path for path, _, _ in fake.requests] == ["/api/dcim/devices/"]
