"""/api/v1/runs/<uuid>/metrics/: points in bulk, metrics, curves and CSV."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.runs.models import MetricPoint
from tests.api.conftest import Labs

Refused = Callable[..., dict[str, Any]]
RUN = "7f1d3b52-2222-4333-8444-555566667777"
FACTS: dict[str, Any] = {"name": "train.py", "started_at": "2026-11-02T08:00:00Z"}
AT = "2026-11-02T08:00:01Z"
PATH = f"runs/{RUN}/metrics/"


@pytest.fixture
def run(labs: Labs) -> Labs:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    return labs


def tell(labs: Labs, *points: list[Any]) -> dict[str, Any]:
    reply = labs.member("POST", PATH, {"points": list(points)})
    assert reply.status_code == 200, reply.content
    return reply.json()  # type: ignore[no-any-return,attr-defined]


def test_points_are_kept_and_summed(run: Labs) -> None:
    assert tell(run, ["loss", 0, 2.5, AT], ["loss", 10, 1, None], ["acc", 0, "NaN", AT]) == {
        "points": 3,
        "new": 3,
    }
    assert run.viewer("GET", PATH).json() == {
        "metrics": [
            {
                "name": "acc",
                "count": 1,
                "last_step": 0,
                "last": None,
                "least": None,
                "greatest": None,
            },
            {
                "name": "loss",
                "count": 2,
                "last_step": 10,
                "last": 1.0,
                "least": 1.0,
                "greatest": 2.5,
            },
        ]
    }
    assert run.viewer("GET", f"runs/{RUN}/").json()["metrics"][1]["least"] == 1.0


def test_told_again_the_last_word_stays(run: Labs) -> None:
    tell(run, ["loss", 0, 2.5, AT], ["loss", 1, 1.0, AT])
    assert tell(run, ["loss", 1, 3.0, AT], ["loss", 1, 2.0, AT], ["loss", 2, 1.5, AT]) == {
        "points": 2,
        "new": 1,
    }
    found = run.viewer("GET", f"{PATH}?name=loss").json()
    assert (found["count"], found["least"], found["greatest"], found["last"]) == (3, 1.5, 2.5, 1.5)
    assert [point[:2] for point in found["points"]] == [[0, 2.5], [1, 2.0], [2, 1.5]]


def test_what_is_no_number_is_a_word(run: Labs) -> None:
    tell(run, ["loss", 0, "nan", AT], ["loss", 1, "-Infinity", AT], ["loss", 2, "inf", AT])
    assert [point[1] for point in run.viewer("GET", f"{PATH}?name=loss").json()["points"]] == [
        "NaN",
        "-Infinity",
        "Infinity",
    ]


def test_packed(run: Labs) -> None:
    body = gzip.compress(
        json.dumps({"points": [["loss", i, 1 / (i + 1), None] for i in range(10_000)]}).encode()
    )
    reply = run.member("POST", PATH, body, **{"Content-Encoding": "gzip"})
    assert reply.json() == {"points": 10_000, "new": 10_000}
    found = run.viewer("GET", f"{PATH}?name=loss").json()
    assert found["thinned"] is True
    assert len(found["points"]) <= 2000
    assert (found["points"][0][1], found["points"][-1][1]) == (1.0, 0.0001)


def test_csv_has_every_point(run: Labs) -> None:
    tell(run, *(["val/loss", i, i / 4, AT] for i in range(3)), ["val/loss", 3, "NaN", AT])
    reply: Any = run.viewer("GET", f"{PATH}?name=val%2Floss&shape=csv")
    assert reply["Content-Type"] == "text/csv; charset=utf-8"
    lines = b"".join(reply.streaming_content).decode().splitlines()
    at = "2026-11-02T08:00:01+00:00"
    assert lines == ["step,at,value", f"0,{at},0.0", f"1,{at},0.25", f"2,{at},0.5", f"3,{at},NaN"]


def test_points_are_a_word_of_the_run(run: Labs) -> None:
    from apps.runs.models import Run

    Run.objects.update(state="lost", last_report_us=1)
    tell(run, ["loss", 0, 1, None])
    found = Run.objects.get()
    assert found.state == "running"
    assert (found.last_report_us or 0) > 10**15


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "points"),
        (b"{", None),
        (b"[]", "points"),
        (b'{"points": 5}', "points"),
        (b'{"points": [], "more": 1}', "points"),
        (b'{"points": [["loss", 0, 1]]}', "points[0]"),
        (b'{"points": [["loss", 0.5, 1, null]]}', "points[0][1]"),
        (b'{"points": [["", 0, 1, null]]}', "points[0][0]"),
        (b'{"points": [["loss", 0, "low", null]]}', "points[0][2]"),
        (b'{"points": [["loss", 0, null, null]]}', "points[0][2]"),
        (b'{"points": [["loss", 0, 1, "yesterday"]]}', "points[0][3]"),
        (b'{"points": [["loss", 0, 1, "2026-11-02T08:00:00"]]}', "points[0][3]"),
        (b'{"points": [["loss", 0, 1, "1950-11-02T08:00:00Z"]]}', "points[0][3]"),
        (b'{"points": [["loss", 9223372036854775808, 1, null]]}', "points[0][1]"),
        (b'{"points": [["a\\u0000b", 0, 1, null]]}', "points"),
        (b'{"points": [' + b",".join([b'["l", 0, 1, null]'] * 10_001) + b"]}", "points"),
        (b'{"points": ' + b"[" * 5000 + b"]" * 5000 + b"}", None),
    ],
)
def test_bad_points_are_named(run: Labs, refused: Refused, body: bytes, field: str | None) -> None:
    error = refused(run.member("POST", PATH, body), 400)
    if body not in (b"", b"[]"):
        assert error["field"] == field
    assert not MetricPoint.objects.exists()


def test_numbers_beyond_a_float_are_refused(run: Labs, refused: Refused) -> None:
    refused(run.member("POST", PATH, b'{"points": [["loss", 0, 1e400, null]]}'), 400)


def test_a_body_too_large_is_refused(run: Labs, refused: Refused) -> None:
    refused(run.member("POST", PATH, b" " * (1 << 20) + b" "), 413)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?name=acc", 404),
        ("?colour=1", 400),
        ("?shape=csv", 400),
        ("?name=loss&shape=pdf", 400),
        ("?name=%00", 404),
    ],
)
def test_bad_questions(run: Labs, refused: Refused, query: str, status: int) -> None:
    tell(run, ["loss", 0, 1, None])
    refused(run.viewer("GET", PATH + query), status)


def test_too_many_metrics(run: Labs, refused: Refused) -> None:
    tell(run, *([f"m{i}", 0, 1, None] for i in range(2000)))
    assert (
        "2000"
        in refused(run.member("POST", PATH, {"points": [["one more", 0, 1, None]]}), 400)["message"]
    )


def test_who_may(run: Labs, refused: Refused) -> None:
    body = {"points": [["loss", 0, 1, None]]}
    refused(run.nobody("POST", PATH, body), 401)
    refused(run.viewer("POST", PATH, body), 403)
    refused(run.outsider("POST", PATH, body), 404)
    refused(run.outsider("GET", PATH), 404)
    refused(run.node("POST", PATH, body), 404)
    refused(run.node("GET", PATH), 403)
    refused(run.member("POST", f"runs/{RUN[:-1]}8/metrics/", body), 404)
    assert not MetricPoint.objects.exists()
    run.node("PUT", f"runs/{RUN[:-1]}8/", FACTS)
    assert run.node("POST", f"runs/{RUN[:-1]}8/metrics/", body).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_wrong_method(run: Labs, refused: Refused, method: str) -> None:
    refused(run.member(method, PATH), 405)


def test_the_cost_does_not_grow_with_points(run: Labs) -> None:
    def queries(first: int, count: int) -> int:
        with CaptureQueriesContext(connection) as counted:
            tell(run, *(["loss", first + i, 1.0 / (i + 1), None] for i in range(count)))
        return len(counted)

    tell(run, ["loss", 0, 0.5, None])
    few = queries(10, 2)
    assert queries(1000, 900) == few
