"""The API reference: every operation, its fields, and a command that works as pasted."""

import re
import shlex
from html import unescape
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import yaml
from django.conf import settings
from django.test import Client

from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
from apps.dashboard.api_reference.operations import operation_groups
from apps.dashboard.api_reference.schema_fields import example_of, fields_of, type_of
from apps.dashboard.help.documents import document_names
from apps.runs.services.runs import RunFacts, put_run
from tests.artifacts.support import register_artifact
from tests.assets.support import bought
from tests.builders import T0, SmallLab
from tests.dashboard.support import assert_only, queries, text_of

pytestmark = pytest.mark.django_db
_COMMAND = re.compile(r'<pre id="[\w-]+-command"[^>]*>(.*?)</pre>', re.DOTALL)


def commands(client: Client, group: str) -> list[list[str]]:
    """Return the words of each command on the page of a group."""
    page = text_of(client.get(f"/api/docs/{group}/"))
    found = [unescape(text).replace("\\\n", " ") for text in _COMMAND.findall(page)]
    assert found
    return [shlex.split(text) for text in found]


def test_every_operation_of_the_schema_has_its_place() -> None:
    schema = yaml.safe_load(Client().get("/api/schema/").content)
    described = {
        (method.upper(), path)
        for path, methods in schema["paths"].items()
        for method in methods
        if method in {"get", "post", "put", "patch", "delete"}
    }
    shown = [(each.method, each.path) for group in operation_groups() for each in group.operations]
    assert sorted(shown) == sorted(described)
    index = text_of(Client().get("/api/docs/"))
    for group in operation_groups():
        page = text_of(Client().get(f"/api/docs/{group.name}/"))
        assert f'href="/api/docs/{group.name}/"' in index
        for operation in group.operations:
            assert f'id="{operation.anchor}"' in page
            assert f'href="/api/docs/{group.name}/#{operation.anchor}"' in index
            for name in (*operation.parameters, *operation.body_fields):
                assert f"<code>{name.name}</code>" in page


def test_its_links_lead_to_documents() -> None:
    for group in operation_groups():
        for operation in group.operations:
            for name in re.findall(r'href="/help/([^"/]+)/', operation.description):
                assert name in document_names()


def test_commands_work_as_pasted(owner: Client, lab: SmallLab) -> None:
    facts = RunFacts(name="train.py", started_us=T0)
    put_run(lab=lab.lab, uuid=uuid4(), facts=facts, by=lab.owner, bound_node=None)
    bought(lab, name="gpu")
    register_artifact(lab, "model.pt")
    token = issue_user_token(lab=lab.lab, user=lab.owner, now=now_us())
    sent = 0
    for group in operation_groups():
        for words in commands(owner, group.name):
            assert words[0] == "curl"
            method = words[words.index("-X") + 1] if "-X" in words else "GET"
            headers = dict(
                words[i + 1].split(": ", 1) for i, word in enumerate(words) if word == "-H"
            )
            address = words[-1]
            assert address.startswith(f"{settings.SITE_URL}/api/v1/")
            if method != "GET" or "$" in address:
                continue
            headers["Authorization"] = headers["Authorization"].replace("$LABCARBON_TOKEN", token)
            parts = urlsplit(address)
            response = Client().get(f"{parts.path}?{parts.query}", headers=headers)
            is_for_nodes = parts.path == "/api/v1/config/"
            assert response.status_code == (403 if is_for_nodes else 200), (address, response)
            sent += 1
    assert sent >= 12


def test_a_stranger_gets_variables_instead_of_values(lab: SmallLab, owner: Client) -> None:
    bought(lab, name="gpu")
    assert any(words[-1].endswith("/assets/$ASSET/") for words in commands(Client(), "assets"))
    assert not any(words[-1].endswith("/assets/$ASSET/") for words in commands(owner, "assets"))


def test_values_are_those_of_the_own_lab(outsider: Client, lab: SmallLab, member: Client) -> None:
    run = uuid4()
    facts = RunFacts(name="train.py", started_us=T0)
    put_run(lab=lab.lab, uuid=run, facts=facts, by=lab.owner, bound_node=None)
    assert str(run) in text_of(member.get("/api/docs/runs/"))
    assert str(run) not in text_of(outsider.get("/api/docs/runs/"))


def test_everyone_reads_it_and_people_with_a_lab_keep_the_navigation(
    owner: Client, lab: SmallLab
) -> None:
    for address in ("/api/docs/", "/api/docs/runs/"):
        assert 'class="sidebar"' in text_of(owner.get(address))
        assert 'class="sidebar"' not in text_of(Client().get(address))
        assert_only(owner, address, "GET")
    assert owner.get("/api/docs/no-such/").status_code == 404
    assert queries(owner, "/api/docs/runs/") <= queries(owner, "/api/docs/") + 1


COMPONENTS: dict[str, Any] = {
    "Copy": {
        "type": "object",
        "required": ["path"],
        "properties": {
            "path": {"type": "string"},
            "medium": {"allOf": [{"$ref": "#/components/schemas/Medium"}], "description": "of it"},
        },
    },
    "Medium": {"type": "string", "enum": ["ssd", "hdd"]},
    "Tree": {
        "type": "object",
        "properties": {
            "child": {"$ref": "#/components/schemas/Tree"},
            "size": {"type": "integer", "minimum": 7},
        },
    },
}


def test_fields_and_examples_of_a_schema() -> None:
    body = {
        "type": "object",
        "required": ["copies"],
        "properties": {
            "copies": {"type": "array", "items": {"$ref": "#/components/schemas/Copy"}},
            "day": {"type": "string", "format": "date", "nullable": True},
        },
    }
    names = {field.name: field for field in fields_of(body, COMPONENTS)}
    assert list(names) == ["copies", "copies[].path", "copies[].medium", "day"]
    assert names["copies"].required
    assert names["copies[].path"].required
    assert names["copies[].medium"].values == ("ssd", "hdd")
    assert names["copies[].medium"].description == "of it"
    assert names["day"].type == "date or null"
    assert type_of(body["properties"]["copies"], COMPONENTS) == "list of object"  # type: ignore[index]
    assert example_of(body, COMPONENTS) == {"copies": [{"path": "text"}]}
    assert example_of(COMPONENTS["Medium"], COMPONENTS) == "ssd"


def test_a_schema_within_itself_ends() -> None:
    assert len(list(fields_of(COMPONENTS["Tree"], COMPONENTS))) < 20
    assert example_of(COMPONENTS["Tree"], COMPONENTS)["size"] == 7
