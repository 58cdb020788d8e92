"""The entrance: JSON that is too deep, has a key twice or is not UTF-8, and headers, cookies and
addresses that cannot be decoded, are 400 at every endpoint.
"""

import json
from typing import Any

import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.core.errors import InvalidInput
from apps.core.json_input import MAX_DEPTH, check_json, parse_json
from labcarbon.entrance import Entrance, flag_content_type
from tests.attacks.conftest import RUN, World
from tests.attacks.hostile_targets import bodies_of
from tests.examples import examples

BAD_BODIES: dict[str, bytes] = {
    "deep": b"[" * 2000,
    "deep in a value": b'{"a": ' * 200 + b"1" + b"}" * 200,
    "a key twice": b'{"code": "a", "code": "b"}',
    "a key twice, escaped": b'{"code": "a", "c\\u006fde": "b"}',
    "no UTF-8": b'{"code": "\xff"}',
    "UTF-16": '{"code": "a"}'.encode("utf-16"),
    "a surrogate in UTF-8": b'{"code": "\xed\xa0\x80"}',
    "truncated": b'{"code": "a',
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", BAD_BODIES)
def test_every_endpoint_refuses_unreadable_json(world: World, name: str) -> None:
    statuses = {}
    for method, path, _ in bodies_of(world.ours, RUN):
        if path.endswith("/assets/import/"):  # CSV, not JSON
            continue
        for visitor in ("admin", "node", "token", "anonymous"):
            client = world.visitors[visitor]
            response = client.generic(
                method, path, BAD_BODIES[name], content_type="application/json"
            )
            statuses[f"{method} {path} by {visitor}"] = response.status_code
    assert set(statuses.values()) <= {400, 401, 403, 404, 429}, statuses
    assert 400 in statuses.values()


@pytest.mark.django_db
@pytest.mark.parametrize("endpoint", ["enrol", "login"])
@pytest.mark.parametrize(
    "body", [b"[" * 2000, b'{"code": "a", "code": "b"}', b"\xff", b'{"code": "\\ud800"}']
)
def test_unauthenticated_endpoints_answer_400(endpoint: str, body: bytes) -> None:
    response = Client().post(f"/api/v1/{endpoint}/", body, content_type="application/json")
    assert response.status_code == 400, response.content
    assert set(response.json()) == {"error"}


@pytest.mark.django_db
@pytest.mark.parametrize("endpoint", ["enrol", "login"])
def test_unauthenticated_endpoints_read_no_large_body(endpoint: str) -> None:
    response = Client().post(
        f"/api/v1/{endpoint}/", b" " * (2 << 20), content_type="application/json"
    )
    assert response.status_code == 413


@pytest.mark.django_db
def test_a_lone_surrogate_in_a_choice_is_refused(world: World) -> None:
    body = b'{"kind": "a\\udfffb", "at": "2026-11-01T00:00:00Z"}'
    asset = next(path for _, path, _ in bodies_of(world.ours, RUN) if path.endswith("/events/"))
    response = world.visitors["token"].post(asset, body, content_type="application/json")
    assert response.status_code == 400
    assert response.json()["error"]["field"] == "kind"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; a*=utf-9''x",
        "text/plain; charset=hex",
        "text/plain; charset=\x00",
        "text/plain; charset=unicode_escape",
    ],
)
def test_an_unreadable_content_type_is_refused(content_type: str) -> None:
    environ = flag_content_type({"CONTENT_TYPE": content_type})
    for path in ("/accounts/login/", "/api/v1/login/"):
        assert Client().get(path, **environ).status_code == 400


def test_the_web_server_calls_the_entrance() -> None:
    calls: list[dict[str, Any]] = []
    application = Entrance(lambda environ, start_response: calls.append(environ) or [])
    application({"CONTENT_TYPE": "a/b; c*=x'y'z"}, None)
    application({"CONTENT_TYPE": "application/json"}, None)
    assert [call["CONTENT_TYPE"] for call in calls] == ["", "application/json"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/runs/%00/", "/api/v1/artifacts/a%00/", "/devices/%00/", "/%00"])
def test_a_nul_in_a_path_is_404(world: World, path: str) -> None:
    for visitor in ("anonymous", "admin", "token"):
        assert world.visitors[visitor].get(path).status_code == 404


@pytest.mark.django_db
def test_a_cookie_with_nul_is_no_session() -> None:
    client = Client(raise_request_exception=False)
    for name in ("sessionid", "csrftoken", "messages"):
        response = client.get("/accounts/login/", headers={"cookie": f'{name}="a\\000b"'})
        assert response.status_code == 200


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans())
@settings(max_examples=examples(200))
def test_other_json_is_read_unchanged(value: Any, is_ascii: bool) -> None:
    body = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        with pytest.raises(InvalidInput):
            parse_json(body)
        return
    if _depth(value) <= MAX_DEPTH:
        assert parse_json(body) == json.loads(body)
    else:
        with pytest.raises(InvalidInput):
            parse_json(body)


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.data())
@settings(max_examples=examples(200))
def test_a_key_twice_is_found_anywhere(value: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    pairs = [*value.items(), (key, data.draw(VALUES))]
    inner = ", ".join(f"{json.dumps(name)} : {json.dumps(part)}" for name, part in pairs)
    with pytest.raises(InvalidInput):
        check_json(f'[0, "}}\\"{{", {{"a": {{{inner}}}}}]'.encode())


@given(st.binary())
@settings(max_examples=examples(300))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        parse_json(body)
    except InvalidInput:
        return


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
