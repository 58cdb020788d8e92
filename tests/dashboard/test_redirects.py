"""Addresses that pages had in earlier versions answer 301."""

from uuid import UUID

import pytest
from django.test import Client, override_settings
from django.urls import include, path

from apps.dashboard.redirects import moved

urlpatterns = [moved("old/<uuid:uuid>/", "run"), path("", include("apps.dashboard.urls"))]


@override_settings(ROOT_URLCONF=__name__)
@pytest.mark.parametrize("method", ["get", "head"])
def test_a_moved_page_redirects_with_its_arguments_and_query(method: str) -> None:
    uuid = UUID(int=7)
    response = getattr(Client(), method)(f"/old/{uuid}/?a=1&b=%C3%A9")
    assert (response.status_code, response["Location"]) == (301, f"/runs/{uuid}/?a=1&b=%C3%A9")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/artifacts/plans/", "/artifacts/cleanup/"),
        (f"/artifacts/plans/{UUID(int=7)}/", f"/artifacts/cleanup/{UUID(int=7)}/"),
        (f"/artifacts/plans/{UUID(int=7)}.csv", f"/artifacts/cleanup/{UUID(int=7)}.csv"),
        ("/assets/7/keep/", "/assets/7/replacement/"),
        ("/assets/7/keep.csv", "/assets/7/replacement.csv"),
        ("/duplicates/", "/runs/duplicates/"),
        ("/duplicates.csv", "/runs/duplicates.csv"),
        ("/duplicates/7/", "/runs/duplicates/7/"),
        ("/idle/", "/settings/idle/"),
        ("/lab/", "/settings/"),
        ("/tokens/codecarbon/", "/trackers/codecarbon/"),
    ],
)
def test_former_addresses_redirect(old: str, new: str) -> None:
    response = Client().get(f"{old}?period=30d")
    assert (response.status_code, response["Location"]) == (301, f"{new}?period=30d")
