"""/artifacts/ and /artifacts.csv ."""

import csv
import io
import re

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import Project
from apps.artifacts.choices import Medium
from apps.artifacts.models import Artifact, Copy
from apps.artifacts.services.curation import pin
from apps.catalog.storage_power import MEDIUM_POWER, storage_mj
from apps.core.clock import now_us
from apps.core.units import HOURS_PER_YEAR, INT64_MAX
from apps.dashboard.artifacts.artifacts_page import shorten_path
from apps.fleet.services import set_pue
from tests.artifacts.support import (
    at_paths,
    create_run,
    digest,
    edge,
    register_artifact,
    register_rows,
    row,
)
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of

TB = 10**12


def names(page: str) -> list[str]:
    """Return the artifacts of the table, in order."""
    return re.findall(r'<td class="l"><a href="/artifacts/[0-9a-f]{64}/">([^<]*)</a>', page)


def lines(client: Client, address: str = "/artifacts.csv") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(client.get(address)))))


def test_an_empty_lab_is_told_the_next_step(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get("/artifacts/"))
    assert "labcarbon-collect scan" in page
    assert 'class="filters' not in page


def test_what_is_kept_and_what_that_takes(lab: SmallLab, owner: Client) -> None:
    set_pue(site=lab.site, pue_ppm=1_500_000, from_us=T0)
    register_rows(
        lab, row("twice", bytes=TB, kind="model", project="demo", copies=at_paths("/a", "/b"))
    )
    register_rows(
        lab, row("once", bytes=2 * TB, kind="dataset", copies=at_paths("/c", medium="ssd"))
    )
    register_rows(
        lab, row("nowhere", bytes=5 * TB), row("lost", bytes=7 * TB, copies=at_paths("/lost"))
    )
    Copy.objects.filter(path="/lost").update(state="missing")
    page = text_of(owner.get("/artifacts/"))
    assert "2 artifacts · 3.00\xa0TB + 1.00\xa0TB in additional copies" in page
    assert "4 artifacts including" in page
    parts = [(2 * TB, MEDIUM_POWER[Medium.HDD]), (2 * TB, MEDIUM_POWER[Medium.SSD])]
    year = sum(storage_mj(size, HOURS_PER_YEAR, power.uwh, 1_500_000) for size, power in parts)
    assert f'title="{year:,} mJ exactly"'.replace(",", "\u202f") in page
    low, high = (
        sum(
            storage_mj(size, HOURS_PER_YEAR, getattr(power, end), 1_500_000)
            for size, power in parts
        )
        / 3.6e9
        for end in ("low_uwh", "high_uwh")
    )
    assert f"<span data-range>{low:.1f}–{high:.1f} kWh</span>" in page
    assert "not included" not in page
    data_table = page.split("Size in TB")[1].split("</table>")[0]
    assert re.findall(r">([\d.]+)<", data_table) == [
        "2.00",
        "2.00",
        "1.00",
        "1.00",
        "1.00",
        "2.00",
        "3.00",
    ]


def test_what_is_not_known_is_said_and_in_no_sum(lab: SmallLab, owner: Client) -> None:
    register_rows(lab, row("u", bytes=TB, copies=at_paths("/u", medium="unknown")))
    page = text_of(owner.get("/artifacts/"))
    assert "Storage cost unknown" in page
    assert "1.00 TB on unknown medium, not included" in page
    register_rows(lab, row("o", bytes=TB, copies=at_paths("s3://bucket/o", medium="object")))
    page = text_of(owner.get("/artifacts/"))
    assert "1.00 TB without a PUE" in page
    assert re.search(r"data-would[^>]*>≥", page)


def test_sums_of_whatever_anybody_tells_fit(lab: SmallLab, owner: Client) -> None:
    for name in "abc":
        register_rows(
            lab, row(name, bytes=INT64_MAX, copies=at_paths(f"/{name}", f"/{name}{name}"))
        )
    page = text_of(owner.get("/artifacts/"))
    assert "3 artifacts · 27.7\xa0EB + 27.7\xa0EB in additional copies" in page


FILTERS = (
    ("", ["other", "data", "model"]),
    ("kind=model", ["model"]),
    ("state=registered", ["other"]),
    ("project=demo", ["data"]),
    ("project=~none", ["other", "model"]),
    ("format=torch", ["model"]),
    ("text=DAT", ["data"]),
    ("text=mit", ["model"]),
    (f"text={digest('model')[:10]}", ["model"]),
    ("copies=twice", ["data"]),
    ("copies=missing", ["model"]),
    ("copies=corrupt", []),
    ("pinned=1", ["model"]),
    ("sort=name", ["data", "model", "other"]),
    ("sort=-bytes", ["data", "model", "other"]),
    ("sort=bytes", ["other", "model", "data"]),
    ("sort=-copies", ["data", "model", "other"]),
    ("sort=registered", ["model", "data", "other"]),
    ("page=2", []),
)


def test_filters_and_sorts_live_in_the_address(
    lab: SmallLab, owner: Client, subtests: pytest.Subtests
) -> None:
    register_rows(
        lab,
        row(
            "model",
            bytes=5,
            kind="model",
            format="torch",
            licence="MIT",
            copies=at_paths("/m", "/gone"),
        ),
        now=T0,
    )
    register_rows(
        lab,
        row("data", bytes=9, kind="dataset", project="demo", copies=at_paths("/d", "/e")),
        now=T0 + 1,
    )
    register_rows(lab, row("other", bytes=1), now=T0 + 2)
    Copy.objects.filter(path="/gone").update(state="missing")
    pin(artifact=Artifact.objects.get(name="model"), reason="cited", by=lab.owner, now=T0)
    for query, expected in FILTERS:
        with subtests.test(query):
            assert names(text_of(owner.get(f"/artifacts/?{query}"))) == expected
            if not query.startswith("page"):
                assert [
                    line["name"] for line in lines(owner, f"/artifacts.csv?{query}")
                ] == expected


def test_marks_have_a_word(lab: SmallLab, owner: Client) -> None:
    made = register_artifact(lab, "m", copies=at_paths("/a", "/b", "/c"))
    Copy.objects.filter(path="/a").update(state="missing")
    Copy.objects.filter(path="/b").update(state="corrupt")
    pin(artifact=made, reason="Cited in May", by=lab.owner, now=now_us())
    page = text_of(owner.get("/artifacts/"))
    assert "? 1 missing" in page
    assert "✕ 1 corrupt" in page
    assert 'title="Cited in May">◆ pinned' in page
    (line,) = lines(owner)
    assert [line[f"copies_{state}"] for state in ("present", "missing", "corrupt")] == [
        "1",
        "1",
        "1",
    ]
    assert line["pinned"] == "Cited in May"


def test_things_of_one_name_are_told_apart_by_where_they_lie(lab: SmallLab, owner: Client) -> None:
    """Half of a lab's models are called weights.pt."""
    register_rows(
        lab,
        row(
            "gone",
            name="weights.pt",
            copies=at_paths("/data/a-lost/weights.pt", "/data/speech/b-there/weights.pt"),
        ),
    )
    register_rows(
        lab,
        row("lost", name="weights.pt", copies=at_paths("/data/lost/weights.pt")),
        row("nowhere", name="weights.pt"),
    )
    Copy.objects.filter(path__contains="lost").update(state="missing")
    page = text_of(owner.get("/artifacts/")).replace("<wbr>", "")
    assert names(page) == ["weights.pt"] * 3
    assert sorted(re.findall(r'<span class="where"[^>]*>\s*([^<]*?)\s*<', page)) == [
        "/data/lost",
        "/data/speech/b-there",
    ]
    assert 'title="/data/speech/b-there/weights.pt"' in page
    paths = ["", "/data/lost/weights.pt", "/data/speech/b-there/weights.pt"]
    assert sorted(line["path"] for line in lines(owner)) == paths


@given(st.lists(st.text("ab/é", min_size=1, max_size=30), max_size=8).map("/".join))
def test_the_end_of_a_path_is_short_and_true(path: str) -> None:
    end = shorten_path(path, 20)
    assert len(end) <= 20
    if len(path) <= 20:
        assert end == path
    else:
        assert end.startswith("…")
        assert path.endswith(end[1:])
        assert end[1] == "/" or "/" not in end[1:-1]


@pytest.mark.parametrize(("path", "end"), [
    ("/data/language/model-7", "/data/language/model-7"), ("s3://bucket/a", "s3://bucket/a"),
    ("", ""), ("/scratch/shared/detector/2026-03/run-100", "…/detector/2026-03/run-100"),
    ("/" + "x" * 40, "…" + "x" * 28),
])  # fmt: skip
def test_the_end_of_a_path_is_of_whole_names(path: str, end: str) -> None:
    assert shorten_path(path, 30) == end


def test_of_one_run(lab: SmallLab, owner: Client) -> None:
    run = create_run(lab)
    register_rows(lab, row("made", runs=[edge(run), edge(run, "used")]), row("alone"))
    page = text_of(owner.get(f"/artifacts/?run={run.uuid}"))
    assert names(page) == ["made"]
    assert f'href="/runs/{run.uuid}/"' in page


def test_pages_of_fifty(lab: SmallLab, owner: Client) -> None:
    for i in range(60):
        register_rows(lab, row(f"a{i:02}"), now=T0 + i)
    page = text_of(owner.get("/artifacts/?sort=name&kind=other"))
    assert "60 artifacts match these filters" in page
    assert len(names(page)) == 50
    assert "1–50 of 60" in page
    address = re.search(r'href="(\?[^"]*)" rel="next"', page)
    assert address
    last = text_of(owner.get("/artifacts/" + address[1].replace("&amp;", "&")))
    assert names(last) == [f"a{i}" for i in range(50, 60)]


@pytest.mark.parametrize(
    ("query", "words"),
    [
    ("kind=thing", "Unknown kind"), ("state=nice", "Unknown state"),
    ("copies=many", "Unknown copies"), ("sort=colour", "Unknown sort order"),
    ("page=0", "Invalid page number"), ("page=%C2%B2", "Invalid page number"),
    ("text=%00", "Invalid character"), ("run=x", "Invalid UUID"),
    ("project=%00", "Invalid character"),
],
)  # fmt: skip
def test_bad_questions_are_refused_in_words(
    lab: SmallLab, owner: Client, query: str, words: str
) -> None:
    for address in ("/artifacts/", "/artifacts.csv"):
        if address == "/artifacts.csv" and query.startswith("page"):
            continue
        reply = owner.get(f"{address}?{query}")
        assert reply.status_code == 400
        assert words in text_of(reply)


def test_hostile_names_are_shown_as_they_are(lab: SmallLab, owner: Client) -> None:
    Project.objects.create(lab=lab.lab, slug="p", name=HOSTILE[:100], created_us=T0)
    register_rows(
        lab,
        row(HOSTILE, format="x", licence=HOSTILE, project="p", copies=at_paths("/" + HOSTILE)),
        row("=1+1", licence="@x"),
    )
    page = text_of(owner.get("/artifacts/"))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert {line["name"] for line in lines(owner)} == {HOSTILE, "'=1+1"}


def test_who_may_look(lab: SmallLab, owner: Client, viewer: Client, outsider: Client) -> None:
    register_rows(lab, row("ours"))
    assert names(text_of(viewer.get("/artifacts/"))) == ["ours"]
    assert names(text_of(outsider.get("/artifacts/"))) == []
    assert lines(outsider) == []
    for address in ("/artifacts/", "/artifacts.csv"):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET")


def test_queries_do_not_grow(lab: SmallLab, owner: Client) -> None:
    def more(start: int, count: int) -> None:
        register_rows(
            lab,
            *(
                row(
                    f"a{i}",
                    project="demo" if i % 2 else "",
                    kind="model" if i % 3 else "log",
                    copies=at_paths(f"/{i}", f"/b{i}"),
                )
                for i in range(start, start + count)
            ),
        )

    more(0, 2)
    before = {
        address: queries(owner, address)
        for address in ("/artifacts/", "/artifacts/?sort=-copies", "/artifacts.csv")
    }
    more(2, 48)
    assert {address: queries(owner, address) for address in before} == before
