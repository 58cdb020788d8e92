"""/livez, /readyz, and the pages of what went wrong."""

from unittest.mock import patch

import pytest
from django.db import OperationalError
from django.template.loader import render_to_string
from django.test import Client

from apps.dashboard.setup.views import migration_problem
from tests.dashboard.support import assert_only, text_of


def test_livez(db: None) -> None:
    response = Client().get("/livez")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert_only(Client(), "/livez", "GET")


def test_readyz(db: None) -> None:
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert response.json()["status"] == "ok"


def test_readyz_with_a_migration_waiting_names_the_command(db: None) -> None:
    class Step:
        app_label, name = "core", "0099_later"

    migration_problem.cache_clear()
    with patch(
        "apps.dashboard.setup.views.MigrationExecutor.migration_plan", return_value=[(Step, False)]
    ):
        response = Client().get("/readyz")
    assert response.status_code == 503
    assert "manage.py migrate" in response.json()["message"]
    assert response.json()["waiting"] == ["core.0099_later"]
    migration_problem.cache_clear()


def test_readyz_without_a_database(db: None) -> None:
    with patch(
        "apps.dashboard.setup.views.MigrationRecorder",
        side_effect=OperationalError("gone away at 10.0.0.1"),
    ):
        response = Client().get("/readyz")
    assert response.status_code == 503
    assert "10.0.0.1" not in text_of(response)


def test_an_unknown_address_says_where_to_go(db: None) -> None:
    response = Client().get("/nowhere/")
    assert response.status_code == 404
    assert 'href="/runs/"' in text_of(response)


def test_another_host_name_is_told_what_to_set(db: None) -> None:
    response = Client().get("/", headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert "LABCARBON_ALLOWED_HOSTS" in text_of(response)


@pytest.mark.parametrize("name", ["400", "403", "403_csrf", "404", "500"])
def test_each_error_page_stands_alone_and_says_what_to_do(name: str) -> None:
    page = render_to_string(f"{name}.html")
    assert "LabCarbon" in page
    assert '<p class="lead">' in page
    assert 'href="/"' in page
