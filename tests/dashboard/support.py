"""Energy use of a small lab, and checks for all pages."""

import re
from html import unescape
from typing import Any
from uuid import UUID, uuid4

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Project
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push

HOUR = T0 // US_PER_HOUR
PERIOD = "from=2026-11-01T00:00Z&to=2026-11-10T00:00Z"
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
_SPACES = re.compile(r"[ \t\n]+")
_ATTRIBUTES = r"""(?:"[^"]*"|'[^']*'|[^>"'])*"""
_BLOCKS = (
    "html|head|title|body|header|main|nav|footer|section|div|p|h[1-6]|ul|ol|li|dl|dt|dd|table|"
    "caption|thead|tbody|tfoot|tr|th|td"
    "|form|fieldset|legend|select|optgroup|option|datalist|details|summary|dialog|br|hr|meta|link"
)
_LAYOUT = re.compile(
    rf"""(?P<typed> <textarea\b.*?</textarea>)
    | \s* (?P<verbatim> <(pre|script|style)\b.*?</\3>) \s*
    | \s* (?P<tag> </?(?:{_BLOCKS})\b{_ATTRIBUTES}>) \s*
    | [ \t\n]+""",
    re.DOTALL | re.VERBOSE,
)
_FIGURE = re.compile(r'data-figure="([^"]*)" data-value="(-?\d+)"')


def gpu(i: int = 0) -> str:
    return f"gpu:GPU-0000-{i:04d}"


def use(
    lab: SmallLab,
    *,
    runs: int = 1,
    project: str | None = "demo",
    name: str = "train.py",
    first: int = 0,
    settle: bool = True,
) -> list[UUID]:
    """Upload one minute of use per run: 60 % of the run, 40 % idle. Runs follow each other."""
    uuids = [uuid4() for _ in range(runs)]
    for i, uuid in enumerate(uuids):
        facts = RunFacts(
            name=name,
            started_us=T0 + (first + i) * MINUTE,
            project=project,
            os_user="ada",
            host="ws-1",
            node_uuid=lab.node.uuid,
        )
        put_run(lab=lab.lab, uuid=uuid, facts=facts, by=lab.owner, bound_node=None)
    push(
        lab.node,
        [
            W(
                gpu(),
                10_000_001 + first + i,
                start_us=T0 + (first + i) * MINUTE,
                end_us=T0 + (first + i + 1) * MINUTE,
                seq=first + i,
                shares=((f"run:{uuid}", 6_000_001), ("idle", 4_000_000 + first + i)),
            )
            for i, uuid in enumerate(uuids)
        ],
        settle=settle,
    )
    return uuids


def many_projects(lab: SmallLab, number: int, first: int = 1) -> None:
    """Create projects, each with one run of a minute."""
    for i in range(first, first + number):
        Project.objects.create(lab=lab.lab, slug=f"p-{i}", name=f"Project {i}", created_us=T0)
        use(lab, project=f"p-{i}", first=i, settle=False)
    run_until_idle(worker="test")


def fields_with_errors(page: str) -> list[str]:
    """Return the names of the form fields with an error."""
    return re.findall(r'data-field-error="([^"]+)"', page)


def text_of(response: Any) -> str:
    """Return the body as text. The whitespace of HTML is folded."""
    content = b"".join(response.streaming_content) if response.streaming else response.content
    text = str(content.decode())
    return folded(text) if response.get("Content-Type", "").startswith("text/html") else text


def folded(page: str) -> str:
    """Return HTML without whitespace beside blocks; reduce other whitespace to one space."""
    return _LAYOUT.sub(
        lambda match: match["typed"] or match["verbatim"] or _SPACES.sub(" ", match["tag"] or " "),
        page,
    )


def figures_on(page: str) -> list[tuple[str, int]]:
    """Return (query, integer) of every figure on a page."""
    return [(unescape(query), int(value)) for query, value in _FIGURE.findall(page)]


def queries(client: Client, address: str, **headers: str) -> int:
    """Return the number of database queries of a page."""
    with CaptureQueriesContext(connection) as captured:
        response = client.get(address, headers=headers)
        assert response.status_code == 200, text_of(response)
        text_of(response)
    return len(captured)


def assert_needs_sign_in(address: str) -> None:
    response = Client().get(address)
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/?next=")


def assert_only(client: Client, address: str, *allowed: str) -> None:
    """Assert that other methods get an error page with status 405 and the Allow header."""
    for method in {"post", "put", "delete"} - {name.lower() for name in allowed}:
        response = getattr(client, method)(address)
        assert response.status_code == 405, method
        assert response["Allow"] == ", ".join(allowed)
        assert 'data-error="405"' in text_of(response)


def without_secrets(page: str) -> str:
    """Return a page without its CSRF token, whose random text can contain any word."""
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", page)


def assert_each_figure_explains_itself(client: Client, page: str) -> int:
    """Assert that the explanation of each figure has the same integer; return their number."""
    listed = figures_on(page)
    for query, value in listed:
        explained = text_of(client.get(f"/explain/?{query}"))
        assert f'data-explain-value="{value}"' in explained, query
    return len(listed)
