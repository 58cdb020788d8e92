"""The comparison of two snapshots (scripts/snapshot)."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.snapshot.compare import allowed_keys, allowed_texts, compare, differences
from scripts.snapshot.former_addresses import former_address
from scripts.snapshot.html_facts import facts_of, folded

PAGES = {
    "lab /runs/": {"status": 200, "values": ["figure=a value=1", "figure=b value=2"]},
    "lab /lab/": {"values": []},
}


def folder(path: Path, pages: Any, **files: str) -> Path:
    path.mkdir()
    (path / "pages.json").write_text(json.dumps(pages))
    (path / "csv_headings.json").write_text(json.dumps(files.get("headings", "")))
    (path / "about.json").write_text("{}")
    (path / "text").mkdir()
    (path / "text" / "runs.txt").write_text(files.get("text", "Runs"))
    return path


def keys(before: Path, after: Path, **options: Any) -> list[tuple[str, str, str]]:
    return [(each.key, each.before, each.after) for each in differences(before, after, **options)]


def test_equals_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = folder(tmp_path / "a", PAGES), folder(tmp_path / "b", PAGES)
    assert compare(one, other) == 0
    assert capsys.readouterr().out == "0 differences, 0 allowed\n"


def test_changed_missing_and_added_keys_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = {
        "lab /runs/": {"values": ["figure=a value=3", "figure=b value=2"]},
        "lab /new/": {"status": 200, "values": []},
    }
    one, other = folder(tmp_path / "a", PAGES), folder(tmp_path / "b", pages)
    assert keys(one, other) == [
        ("lab /runs/ › status", "200", "(absent)"),
        ("lab /runs/ › values[0]", '"figure=a value=1"', '"figure=a value=3"'),
        ("lab /lab/", "[]", "(absent)"),
        ("lab /new/", "(absent)", "(2 values)"),
    ]
    assert compare(one, other) == 1
    printed = capsys.readouterr().out
    assert (
        'pages.json: lab /runs/ › values[0]\n  before: "figure=a value=1"\n  after:  "figure=a '
        'value=3"\n' in printed
    )
    assert printed.endswith("4 differences, 0 allowed\n")


@pytest.mark.parametrize(
    ("before", "after", "listed"),
    [
        (["a", "b", "c"], ["a", "x", "b", "c"], [("p[1]", "(absent)", '"x"')]),
        (["a", "b", "c"], ["a", "c"], [("p[1]", '"b"', "(absent)")]),
        (["a", "b"], ["b", "a"], [("p[0]", '"a"', '"b"'), ("p[1]", '"b"', '"a"')]),
        (
            [["1", ""], ["2", "x"]],
            [["0", ""], ["1", ""], ["2", "x"]],
            [("p[0]", "(absent)", '["0", ""]')],
        ),
        ([], ["a"], [("p", "[]", "(absent)"), ("p[0]", "(absent)", '"a"')]),
    ],
)
def test_what_follows_an_added_or_a_removed_item_has_moved_only(
    tmp_path: Path, before: list[Any], after: list[Any], listed: list[tuple[str, str, str]]
) -> None:
    assert (
        keys(folder(tmp_path / "a", {"p": before}), folder(tmp_path / "b", {"p": after})) == listed
    )


def test_a_snapshot_that_was_not_written_to_its_end_is_refused(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "a", PAGES), folder(tmp_path / "b", PAGES)
    (other / "about.json").unlink()
    with pytest.raises(SystemExit, match="holds no complete snapshot"):
        compare(one, other)


def test_a_missing_and_an_added_file_are_listed(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "a", PAGES), folder(tmp_path / "b", PAGES)
    (one / "api.json").write_text('{"x": 1}')
    (other / "charts.json").write_text('{"y": []}')
    assert keys(one, other) == [("x", "1", "(absent)"), ("y", "(absent)", "[]")]


def test_allowed_differences_have_a_pattern_and_a_reason(tmp_path: Path) -> None:
    pages = {**PAGES, "lab /lab/": {"values": ["figure=c value=4"]}}
    one, other = folder(tmp_path / "a", PAGES), folder(tmp_path / "b", pages)
    allow = tmp_path / "allowed.txt"
    allow.write_text("# comment\npages.json: lab /lab/ *  # the page has a new figure\n")
    assert compare(one, other, allow=allow) == 0
    with pytest.raises(SystemExit, match=r"line 1 .* has no reason"):
        allowed_keys("pages.json: lab /lab/ *")


def test_a_value_that_differs_in_listed_texts_only_is_allowed(tmp_path: Path) -> None:
    one = folder(tmp_path / "a", {"lab /": {"values": ["rest=5 name: Rest"], "status": 200}})
    same = folder(tmp_path / "b", {"lab /": {"values": ["rest=5 name: Overhead"], "status": 200}})
    other = folder(tmp_path / "c", {"lab /": {"values": ["rest=6 name: Overhead"], "status": 200}})
    allow = tmp_path / "allowed.txt"
    allow.write_text("text: name: Rest => name: Overhead\n")
    assert compare(one, same, allow=allow) == 0
    assert compare(one, other, allow=allow) == 1
    with pytest.raises(SystemExit, match=r"line 1 .* FORMER => NEW"):
        allowed_texts("text: name: Rest")


def test_texts_and_headings_are_compared_on_request(tmp_path: Path) -> None:
    one = folder(tmp_path / "a", PAGES)
    other = folder(tmp_path / "b", PAGES, text="Runs of the lab", headings="name")
    assert keys(one, other) == []
    assert keys(one, other, optional=["text"]) == [("line[0]", "Runs", "Runs of the lab")]
    assert keys(one, other, optional=["headings"]) == [("", '""', '"name"')]
    assert keys(one, other, only=["rows/*"], optional=["text"]) == [
        ("line[0]", "Runs", "Runs of the lab")
    ]


def test_facts_of_a_page() -> None:
    page = """<form action="/x/" method="post"><input name="csrfmiddlewaretoken" value="abc" type="hidden">
      <select name="kind"></select></form><a class="figure" data-figure="metric=e&amp;run=1" data-value="12500"
      href="/explain/?metric=e&amp;run=1" title="12 500 mJ exactly"><b>12.5</b> J</a><p data-range>1.5 to 2.5 J</p>
      <script id="c" type="application/json">{"b": [1, 2.5], "a": {"name": "x", "y": 3}}</script><script>no()</script>"""  # noqa: E501
    facts = facts_of(page)
    assert facts.values == [
        "figure=metric=e&run=1 value=12500 title: 12 500 text: 12.5",
        "range text: 1.5 | 2.5",
    ]
    assert facts.charts == {"c": [3, 1, 2.5]}
    assert facts.forms == [
        {
            "action": "/x/",
            "method": "post",
            "fields": [["csrfmiddlewaretoken", "hidden"], ["kind", "select"]],
        }
    ]
    assert facts.queries == ["metric=e&run=1"]
    assert facts.text == ["12.5", "J", "1.5 to 2.5 J"]
    assert '<input name="csrfmiddlewaretoken" value="(random)" type="hidden">' in folded(page)


def test_white_space_between_numbers_makes_no_difference() -> None:
    page = '<p data-window title="1\u2009234\n  mJ">gpu/0\n   1\u2009500 <b>7</b>8 mJ</p>'
    assert facts_of(page).values == ["window title: 1 234 text: 0 1 500 7 8"]
    assert facts_of(folded(page)).values == facts_of(page).values


@pytest.mark.parametrize(
    ("address", "former"),
    [
        ("/artifacts/cleanup/", "/artifacts/plans/"),
        ("/artifacts/cleanup/1b2c.csv", "/artifacts/plans/1b2c.csv"),
        ("/assets/12/replacement/?hours=4000", "/assets/12/keep/?hours=4000"),
        ("/assets/12/replacement.csv", "/assets/12/keep.csv"),
        ("/runs/duplicates/?state=open", "/duplicates/?state=open"),
        ("/runs/duplicates.csv", "/duplicates.csv"),
        ("/settings/idle/", "/idle/"),
        ("/settings/?saved=1", "/lab/?saved=1"),
        ("/trackers/codecarbon/", "/tokens/codecarbon/"),
        ("/settings/tokens/", "/settings/tokens/"),
        ("/artifacts/plans/", "/artifacts/plans/"),
        ("/trackers/mlflow/", "/trackers/mlflow/"),
    ],
)
def test_moved_pages_have_their_former_address(address: str, former: str) -> None:
    assert former_address(address) == former
