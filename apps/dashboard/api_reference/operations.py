"""The operations of the API, from its OpenAPI schema, by group."""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.utils.safestring import SafeString
from drf_spectacular.generators import SchemaGenerator

from apps.dashboard.api_reference.schema_fields import (
    Field,
    Schema,
    example_of,
    field_of,
    fields_of,
    resolved,
)
from apps.dashboard.help.documents import html_of

_METHODS = ("get", "post", "put", "patch", "delete")
_DOCUMENT = re.compile(r"(?<![\w(/\[])docs/([\w-]+)\.md")
_PARAMETER = re.compile(r"\{(\w+)\}")
# Of required query parameters.
_EXAMPLES = {"from": "2026-11-01", "to": "2026-12-01", "metric": "energy_mj"}


@dataclass(frozen=True)
class Response:
    """A response by its status."""

    status: str
    phrase: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Operation:
    """A method of an address. ``body``: an example, None without a body; '' if its form is only
    described. ``query``: required query parameters with examples. ``is_public``: without a token.
    """

    anchor: str
    method: str
    path: str
    description: SafeString
    summary: str
    parameters: tuple[Field, ...]
    body_fields: tuple[Field, ...]
    body: str | None
    media_type: str
    responses: tuple[Response, ...]
    query: str
    is_public: bool
    command: str = ""


@dataclass(frozen=True)
class OperationGroup:
    """The operations of one subject, the first part of their paths."""

    name: str
    operations: tuple[Operation, ...]


@cache
def operation_groups() -> tuple[OperationGroup, ...]:
    """Return all operations. The schema is generated once per process."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    components = schema["components"]["schemas"]
    groups: dict[str, list[Operation]] = defaultdict(list)
    for path, methods in schema["paths"].items():
        for method in _METHODS:
            if method in methods:
                operation = _operation(path, method, methods[method], components)
                groups[methods[method]["tags"][0]].append(operation)
    return tuple(OperationGroup(name, tuple(groups[name])) for name in sorted(groups))


def operation_group(name: str) -> OperationGroup | None:
    """Return a group, or None."""
    return next((group for group in operation_groups() if group.name == name), None)


def with_commands(group: OperationGroup, values: Mapping[str, str]) -> OperationGroup:
    """Return a group whose commands contain ``values`` of the parameters of paths."""
    return replace(
        group,
        operations=tuple(
            replace(each, command=curl_command(each, values)) for each in group.operations
        ),
    )


def curl_command(operation: Operation, values: Mapping[str, str]) -> str:
    """Return a command for a terminal. A parameter without a value is a variable of the shell."""

    def filled(match: re.Match[str]) -> str:
        value = values.get(match[1])
        return f"${match[1].upper()}" if value is None else quote(value, safe="")

    address = f"{settings.SITE_URL}{_PARAMETER.sub(filled, operation.path)}"
    if operation.query:
        address += f"?{operation.query}"
    parts = ["curl -sS"]
    if operation.method != "GET":
        parts.append(f"-X {operation.method}")
    if not operation.is_public:
        parts.append('-H "Authorization: Bearer $LABCARBON_TOKEN"')
    if operation.body is not None:
        parts.append(f"-H {shlex.quote(f'Content-Type: {operation.media_type}')}")
        parts.append(f"-d {shlex.quote(operation.body)}" if operation.body else "-d @body.json")
    return " \\\n  ".join([*parts, f'"{address}"'])


def _operation(path: str, method: str, facts: Schema, components: Schema) -> Operation:
    text = str(facts.get("description", ""))
    parameters = facts.get("parameters", [])
    required = {
        each["name"]: _EXAMPLES.get(each["name"], "")
        for each in parameters
        if each["in"] == "query" and each.get("required")
    }
    body_schema, media_type = _body_of(facts)
    fields = tuple(fields_of(body_schema, components)) if body_schema is not None else ()
    return Operation(
        anchor=facts["operationId"],
        method=method.upper(),
        path=path,
        description=html_of(_DOCUMENT.sub(r"[docs/\1.md](\1.md)", text)),
        summary=re.split(r"(?<=\.)\s|\n\n", text, maxsplit=1)[0].replace("``", ""),
        parameters=tuple(
            field_of(
                each["name"],
                each.get("schema", {}),
                components,
                required=each.get("required"),
                description=each.get("description"),
            )
            for each in parameters
            if each["in"] in {"path", "query"}
        ),
        body_fields=fields,
        body=_example_body(body_schema, fields, components),
        media_type=media_type,
        responses=tuple(
            _response(status, each, components) for status, each in facts["responses"].items()
        ),
        query=urlencode(required),
        is_public={} in facts.get("security", [{}]),
    )


def _body_of(facts: Schema) -> tuple[Schema | None, str]:
    """Return the schema and the media type of a body, (None, '') without one."""
    content = facts.get("requestBody", {}).get("content", {})
    for media_type, body in content.items():
        name = "application/json" if media_type == "*/*" else media_type
        return body.get("schema", {}), name
    return None, ""


def _example_body(
    schema: Schema | None, fields: tuple[Field, ...], components: Schema
) -> str | None:
    if schema is None:
        return None
    kind = resolved(schema, components).get("type")
    if not fields and kind != "array":
        return ""
    return json.dumps(example_of(schema, components), ensure_ascii=False)


def _response(status: str, facts: Mapping[str, Any], components: Schema) -> Response:
    schemas = [each.get("schema", {}) for each in facts.get("content", {}).values()]
    fields = tuple(fields_of(schemas[0], components)) if schemas else ()
    return Response(status, facts.get("description") or HTTPStatus(int(status)).phrase, fields)
