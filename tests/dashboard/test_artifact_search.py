"""/artifacts/ looked through by architecture, base model, data, metric, size, licence, medium;
/artifacts.csv the same.
"""

import csv
import io
import re

import pytest
from django.test import Client

from tests.artifacts.support import run_jobs, trained_model
from tests.builders import SmallLab
from tests.dashboard.support import HOSTILE, queries, text_of


def names(page: str) -> list[str]:
    return re.findall(r'<td class="l"><a href="/artifacts/[0-9a-f]{64}/">([^<]*)</a>', page)


def lines(client: Client, query: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(client.get(f"/artifacts.csv?{query}")))))


@pytest.fixture
def three(lab: SmallLab) -> None:
    trained_model(
        lab,
        "a.pt",
        data="cats",
        metrics={"val_loss": -0.5},
        bytes=100,
        licence="MIT",
        facts={"architecture": "vgg"},
    )
    trained_model(
        lab, "b.pt", data="dogs", metrics={"val_loss": 0.9}, bytes=2_000, licence="Apache-2.0"
    )
    trained_model(
        lab,
        "c.pt",
        data="cat-boxes",
        metrics={"val_loss": 0.8},
        bytes=30_000,
        facts={"base_model": "bert"},
    )
    run_jobs()


FILTERS = (
    ("data=cats", ["c.pt", "a.pt"]), ("architecture=vgg", ["a.pt"]), ("base_model=BERT", ["c.pt"]),
    ("licence=apache", ["b.pt"]), ("bytes_min=2 kB", ["c.pt", "b.pt"]), ("medium=ssd", []),
    ("metric=val_loss", ["a.pt", "c.pt", "b.pt"]),
    ("metric=val_loss&sort=-metric", ["b.pt", "c.pt", "a.pt"]),
    ("metric=val_loss&sort=-copies", ["c.pt", "b.pt", "a.pt"]),
    ("metric=val_loss&sort=name", ["a.pt", "b.pt", "c.pt"]),
    ("metric=val_loss&metric_min=0.8&data=cats", ["c.pt"]),
)  # fmt: skip


def test_filters_live_in_the_address(three: None, owner: Client, subtests: pytest.Subtests) -> None:
    for query, expected in FILTERS:
        with subtests.test(query):
            assert names(text_of(owner.get(f"/artifacts/?{query}"))) == expected
            assert [line["name"] for line in lines(owner, query)] == expected


def test_the_metric_has_a_column_and_a_way_round(three: None, owner: Client) -> None:
    page = text_of(owner.get("/artifacts/?metric=val_loss"))
    assert 'aria-sort="ascending"><a href="?metric=val_loss&amp;sort=-metric">val_loss</a>' in page
    assert '<td class="num">-0.5</td>' in page
    assert "val_loss</a></th>" not in text_of(owner.get("/artifacts/"))
    first, *_ = lines(owner, "metric=val_loss")
    assert (first["metric"], first["metric_value"]) == ("val_loss", "-0.5")
    assert lines(owner, "")[0]["metric_value"] == ""


def test_the_form_keeps_what_was_asked(three: None, owner: Client) -> None:
    query = (
        "architecture=vgg&base_model=b&data=cats&metric=val_loss&metric_min=-1&metric_max=2&"
        "bytes_min=1+B&bytes_max=1+GB"
    )
    page = text_of(owner.get(f"/artifacts/?{query}&licence=MIT&medium=hdd&sort=name"))
    for name, value in (
        ("architecture", "vgg"),
        ("base_model", "b"),
        ("data", "cats"),
        ("metric", "val_loss"),
        ("metric_min", "-1"),
        ("metric_max", "2"),
        ("bytes_min", "1 B"),
        ("bytes_max", "1 GB"),
        ("licence", "MIT"),
    ):
        assert re.search(rf'name="{name}"[^>]* value="{re.escape(value)}"', page), name
    assert '<option value="hdd" selected>' in page
    assert '<input type="hidden" name="sort" value="name">' in page
    assert '<details class="more" open>' in page
    by_metric = text_of(owner.get("/artifacts/?metric=val_loss&sort=-metric"))
    assert (
        'type="hidden" name="sort"' not in by_metric
    )  # without the metric there would be nothing to sort by


def test_the_empty_list_says_which_filter_to_drop(three: None, owner: Client) -> None:
    page = text_of(owner.get("/artifacts/?data=cats&licence=apache&kind=model"))
    assert "No artifacts match these filters." in page
    drops = dict(re.findall(r'<li><a href="(\?[^"]*)" data-drop>without ([^<]*)</a>', page))
    assert set(drops.values()) == {"data “cats”", "licence “apache”"}
    for address in drops:
        assert names(text_of(owner.get("/artifacts/" + address.replace("&amp;", "&"))))


def test_a_metric_goes_with_its_bounds_and_its_order(three: None, owner: Client) -> None:
    page = text_of(owner.get("/artifacts/?metric=val_loss&metric_min=0.85&data=cats&sort=-metric"))
    drops = dict(re.findall(r'<li><a href="(\?[^"]*)" data-drop>without ([^<]*)</a>', page))
    assert drops["?data=cats"] == "metric “val_loss”"
    assert set(drops.values()) == {"metric “val_loss”", "metric from “0.85”", "data “cats”"}


def test_where_no_single_filter_is_to_blame_that_is_said(three: None, owner: Client) -> None:
    assert 'data-drop="none"' in text_of(owner.get("/artifacts/?data=weather&licence=gpl"))
    alone = text_of(owner.get("/artifacts/?licence=gpl"))
    assert 'data-drop="none"' not in alone
    assert "without" not in alone.split("No artifacts match")[1].split("</section>")[0]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sort=metric", "needs a metric"), ("metric_min=1", "need a metric"),
        ("bytes_min=big", "is not a size"),
        ("data=train", "no significant word"), ("medium=paper", "Unknown medium"),
        ("metric=a&metric_max=x", "is not a number"),
    ],
)  # fmt: skip
def test_bad_questions_are_refused_in_words(
    lab: SmallLab, owner: Client, query: str, words: str
) -> None:
    for address in ("/artifacts/", "/artifacts.csv"):
        reply = owner.get(f"{address}?{query}")
        assert reply.status_code == 400
        assert words in text_of(reply)


def test_hostile_words_are_shown_as_they_are(three: None, owner: Client) -> None:
    for name in ("architecture", "base_model", "data", "metric", "licence"):
        page = text_of(owner.get("/artifacts/", {name: HOSTILE, "kind": "model"}))
        assert "<script>alert" not in page, name
        assert "<img src=x" not in page, name


def test_another_lab_finds_nothing(three: None, outsider: Client) -> None:
    for query in (
        "data=cats",
        "architecture=vgg",
        "metric=val_loss",
        "licence=MIT",
        "base_model=bert",
        "medium=hdd",
    ):
        assert names(text_of(outsider.get(f"/artifacts/?{query}"))) == []
        assert lines(outsider, query) == []


def test_queries_do_not_grow(lab: SmallLab, three: None, owner: Client) -> None:
    addresses = (
        "/artifacts/?metric=val_loss&data=cats&medium=hdd",
        "/artifacts.csv?metric=val_loss",
        "/artifacts/?licence=m",
    )
    before = {address: queries(owner, address) for address in addresses}
    for i in range(12):
        trained_model(lab, f"m{i}", data="cats", metrics={"val_loss": i / 10}, licence="MIT")
    run_jobs()
    assert {address: queries(owner, address) for address in addresses} == before
