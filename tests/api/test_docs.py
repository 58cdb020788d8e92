"""The API's schema and its browsable docs, served from here."""

import re

import pytest
import yaml
from django.test import Client


def test_the_schema_lists_every_endpoint(db: None) -> None:
    from django.urls import get_resolver

    reply = Client().get("/api/schema/")
    assert reply.status_code == 200
    described = set(yaml.safe_load(reply.content)["paths"])
    api = next(part for part in get_resolver().url_patterns if str(part.pattern) == "api/v1/")
    routes = {
        "/api/v1/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(endpoint.pattern))
        for part in api.url_patterns
        for endpoint in part.url_patterns
    }
    assert described == routes


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_wrong_method(db: None, method: str) -> None:
    assert getattr(Client(), method)("/api/schema/").status_code == 405


def test_the_docs_load_nothing_from_elsewhere(db: None) -> None:
    reply = Client().get("/api/docs/")
    assert reply.status_code == 200
    addresses = re.findall(r"""(?:src|href)=["']([^"']+)""", reply.content.decode())
    assert addresses
    outside = [href for href in addresses if not re.match(r"/(?!/)|#", href)]
    assert outside == []
