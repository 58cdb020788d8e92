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
        ("/assets/7/keep/?new=3&hours=100", "/assets/7/replacement/?new=3&hours=100"),
        ("/assets/7/keep.csv?new=3", "/assets/7/replacement.csv?new=3"),
    ],
)
def test_pages_of_assets_have_moved(old: str, new: str) -> None:
    response = Client().get(old)
    assert (response.status_code, response["Location"]) == (301, new)
