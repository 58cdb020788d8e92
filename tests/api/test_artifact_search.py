"""GET /api/v1/artifacts/ by architecture, base model, data, metric, size, licence and medium."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api.conftest import Labs
from tests.artifacts.support import register_artifact, run_jobs, trained_model

Refused = Callable[..., dict[str, Any]]


def get(labs: Labs, query: str = "") -> Any:
    reply = labs.viewer(
        "GET", f"artifacts/?{query}" if not query.startswith("artifacts/") else query
    )
    assert reply.status_code == 200, reply.content
    return reply.json()  # type: ignore[attr-defined]


def names(labs: Labs, query: str) -> list[str]:
    return [each["name"] for each in get(labs, query)["results"]]


def _three(labs: Labs) -> None:
    trained_model(
        labs.ours,
        "a.pt",
        data="cats",
        metrics={"val_acc": 0.7},
        bytes=100,
        licence="MIT",
        facts={"architecture": "vgg"},
    )
    trained_model(
        labs.ours, "b.pt", data="dogs", metrics={"val_acc": 0.9}, bytes=2_000, licence="Apache-2.0"
    )
    trained_model(
        labs.ours,
        "c.pt",
        data="cat-boxes",
        metrics={"val_acc": 0.8},
        bytes=30_000,
        facts={"base_model": "bert"},
    )
    run_jobs()


FILTERS = (
    ("data=cats", ["c.pt", "a.pt"]), ("architecture=vgg", ["a.pt"]), ("base_model=BERT", ["c.pt"]),
    ("licence=apache", ["b.pt"]), ("licence=~none", ["c.pt"]), ("bytes_min=2+kB", ["c.pt", "b.pt"]),
    ("bytes_max=100", ["a.pt"]), ("medium=hdd", ["c.pt", "b.pt", "a.pt"]), ("medium=ssd", []),
    ("metric=val_acc", ["b.pt", "c.pt", "a.pt"]),
    ("metric=val_acc&metric_min=0.8", ["b.pt", "c.pt"]),
    ("metric=val_acc&data=cats&bytes_min=1&kind=model&project=demo", ["c.pt", "a.pt"]),
    ("metric=f1", []),
)  # fmt: skip


def test_filters_go_together(labs: Labs, subtests: pytest.Subtests) -> None:
    _three(labs)
    for query, expected in FILTERS:
        with subtests.test(query):
            assert names(labs, query) == expected


def test_the_value_is_told_where_a_metric_is_asked_for(labs: Labs) -> None:
    _three(labs)
    assert get(labs, "metric=val_acc")["results"][0]["metric"] == {"name": "val_acc", "value": 0.9}
    assert "metric" not in get(labs)["results"][0]


def test_pages_by_metric_hold_each_once_and_in_order(labs: Labs) -> None:
    values = [0.1, 0.30000000000000004, 0.30000000000000004, 1e-9, 0.9]
    for i, value in enumerate(values):
        trained_model(labs.ours, f"m{i}", metrics={"val_loss": value})
    seen: list[float] = []
    page = get(labs, "metric=val_loss&page_size=2")
    while True:
        seen += [each["metric"]["value"] for each in page["results"]]
        if not page["next"]:
            break
        page = get(labs, page["next"].split("/api/v1/")[1])
    assert seen == sorted(values)


@pytest.mark.parametrize(
    ("query", "field"),
    [
    ("metric_min=1", "metric"), ("metric=a&metric_min=x", "metric_min"),
    ("bytes_min=1+GiB", "bytes_min"), ("medium=paper", "medium"), ("data=train", "data"),
    ("licence=%00", "licence"), ("colour=red", "colour"), ("metric=a&cursor=cD1hYmM%3D", "cursor"),
    ("cursor=cD1hYmM%3D", "cursor"),
],
)  # fmt: skip
def test_bad_questions(labs: Labs, refused: Refused, query: str, field: str) -> None:
    assert refused(labs.viewer("GET", f"artifacts/?{query}"), 400)["field"] == field


def test_nobody_finds_what_another_lab_keeps(labs: Labs) -> None:
    _three(labs)
    for query in (
        "data=cats",
        "metric=val_acc",
        "architecture=vgg",
        "base_model=bert",
        "licence=MIT",
        "medium=hdd",
    ):
        assert labs.outsider("GET", f"artifacts/?{query}").json()["results"] == [], query  # type: ignore[attr-defined]


def test_queries_do_not_grow(labs: Labs) -> None:
    query = (
        "artifacts/?metric=val_acc&data=cats&architecture=resnet18&base_model=bert&licence=m&"
        "bytes_min=1&medium=hdd"
    )

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert labs.viewer("GET", query).status_code == 200
        return len(captured)

    more = {
        "data": "cats",
        "metrics": {"val_acc": 0.5},
        "licence": "MIT",
        "facts": {"base_model": "bert"},
    }
    trained_model(labs.ours, "first", **more)
    register_artifact(labs.ours, "other")
    run_jobs()
    queries()  # what is cached is cached
    before = queries()
    for i in range(10):
        trained_model(labs.ours, f"m{i}", **more)
    run_jobs()
    assert len(names(labs, query)) == 11
    assert queries() == before
