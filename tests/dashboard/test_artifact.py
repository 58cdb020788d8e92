"""/artifacts/<digest>/ and its lineage as CSV; what a run's page says of artifacts."""

import csv
import io
import re
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Membership, Project, User
from apps.artifacts.choices import Medium
from apps.artifacts.models import Artifact, Copy, LineageEdge
from apps.artifacts.selectors import load_lineage
from apps.artifacts.services.curation import pin
from apps.catalog.storage_power import MEDIUM_POWER, storage_mj
from apps.core.clock import now_us
from apps.core.units import HOURS_PER_YEAR
from apps.dashboard.artifacts import artifact_page as artifact_shown
from apps.fleet.services import set_pue
from apps.runs.metric_parsing import Point
from apps.runs.models import Run
from apps.runs.services.metrics import add_points
from tests.artifacts.support import (
    at_paths,
    create_run,
    digest,
    edge,
    register_artifact,
    register_rows,
    row,
)
from tests.artifacts.test_lineage import chain
from tests.builders import T0, SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    queries,
    text_of,
    use,
)

GB = 10**9
RUN_MJ = 6_000_001  # what tests.dashboard.support.use gives a run


def shown(client: Client, name: str, query: str = "") -> str:
    return text_of(client.get(f"/artifacts/{digest(name)}/{query}"))


def act(client: Client, name: str, action: str, **more: str) -> Any:
    return client.post(f"/artifacts/{digest(name)}/", {"action": action, **more})


def family(lab: SmallLab) -> list[UUID]:
    """A data set, a model made from it, one tuned from that, and what came of it: three measured
    runs.
    """
    runs = use(lab, runs=3)
    register_rows(
        lab,
        row(
            "data",
            kind="dataset",
            bytes=GB,
            copies=at_paths("/d"),
            runs=[edge(runs[0], "used"), edge(runs[1], "used")],
        ),
        row(
            "base",
            kind="model",
            bytes=GB,
            copies=at_paths("/b"),
            runs=[edge(runs[0]), edge(runs[1], "initialised_from")],
        ),
        row(
            "tuned",
            kind="model",
            bytes=GB,
            copies=at_paths("/t"),
            runs=[edge(runs[1]), edge(runs[2], "used")],
        ),
        row("after", bytes=1, runs=[edge(runs[2])]),
    )
    return runs


def test_what_it_is(lab: SmallLab, owner: Client) -> None:
    register_rows(
        lab,
        row(
            "best.safetensors",
            kind="model",
            format="safetensors",
            bytes=91_234_567,
            payload=digest("tensors"),
            licence="MIT",
            aliases={"md5": "0" * 32},
            facts={"parameters": 25_557_032, "frozen": True},
            tags={"task": "cats"},
        ),
    )
    page = shown(owner, "best.safetensors")
    assert "91.2 MB" in page
    assert "25\u202f557\u202f032" in page
    assert ">yes<" in page
    for value in (digest("best.safetensors"), digest("tensors"), "0" * 32):
        assert re.search(
            rf'<pre id="digest-\d">{value}</pre><button type="button"[^>]*data-copy', page
        )
    assert "Location unknown" in page
    for other in (digest("tensors"), "0" * 32):
        assert "best.safetensors" in text_of(owner.get(f"/artifacts/{other}/"))


def test_keeping_and_making_again(lab: SmallLab, owner: Client) -> None:
    (run,) = use(lab)
    set_pue(site=lab.site, pue_ppm=1_400_000, from_us=T0)
    register_rows(
        lab,
        row(
            "m", bytes=GB, copies=[*at_paths("/a"), *at_paths("/b", medium="ssd")], runs=[edge(run)]
        ),
    )
    page = shown(owner, "m")
    each = [
        storage_mj(GB, HOURS_PER_YEAR, MEDIUM_POWER[medium].uwh, 1_400_000)
        for medium in (Medium.HDD, Medium.SSD)
    ]
    for value in (*each, sum(each)):
        assert f'title="{value:,} mJ exactly"'.replace(",", "\u202f") in page
    assert ("1.400" in page, page.count("data-figure")) == (True, 9)
    assert "times the energy of retraining" in page
    assert assert_each_figure_explains_itself(owner, page) == 9
    assert {value for query, value in figures_on(page) if "metric=energy_mj" in query} == {RUN_MJ}


def test_copies_that_are_gone_take_nothing(lab: SmallLab, owner: Client) -> None:
    register_rows(lab, row("m", bytes=GB, copies=at_paths("/a", "/b", "/c")))
    Copy.objects.filter(path="/a").update(state="missing")
    Copy.objects.filter(path="/b").update(state="corrupt")
    page = shown(owner, "m")
    assert "1 copy, storage cost" in page
    assert "? missing" in page
    assert "✕ corrupt" in page
    Copy.objects.update(state="missing")
    page = shown(owner, "m")
    assert "no copy present" in page
    assert "not included: 3 missing" in page


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([], "unknown: no copy registered"), (["trashed"], "not included: in the trash"),
        (["corrupt"], "not included: corrupt"), (["missing"], "not included: missing"),
        (["corrupt", "deleted"], "not included: 1 corrupt, 1 deleted"),
        (["missing", "corrupt", "trashed"], "not included: 1 in the trash, 1 corrupt, 1 missing"),
        (["deleted", "deleted"], "none: all copies deleted"), (["deleted"], "none: copy deleted"),
    ],
)  # fmt: skip
def test_what_is_not_known_of_keeping_is_not_nothing(
    lab: SmallLab, owner: Client, states: list[str], words: str
) -> None:
    register_rows(lab, row("m", bytes=GB, copies=at_paths(*(f"/{i}" for i in range(len(states))))))
    for i, state in enumerate(states):
        Copy.objects.filter(path=f"/{i}").update(state=state)
    assert f"<dd data-storage-cost>{words}</dd>" in shown(owner, "m")


def test_when_a_copy_was_last_told_of(lab: SmallLab, owner: Client) -> None:
    for now in (T0, T0 + 1):
        register_rows(lab, row("m", copies=at_paths("/a")), now=now)
    assert Copy.objects.get().last_observed_us == T0 + 1, "told again it is renewed"
    page = shown(owner, "m").split('id="copies-title"')[1].split("</section>")[0]
    assert '<th scope="col" class="hide">Last confirmed</th>' in page
    assert "A scan that finds it unchanged does not register it again" in page


def test_the_life_is_the_sum_of_the_runs_that_led_to_it(lab: SmallLab, owner: Client) -> None:
    runs = family(lab)
    page = shown(owner, "tuned")
    life = page.split('id="footprint-title"')[1].split("</section>")[0]
    found = figures_on(life)
    of_runs = {
        query: value
        for query, value in found
        if "subject=run%3A" in query and "metric=energy_mj" in query
    }
    assert list(of_runs.values()) == [RUN_MJ, RUN_MJ]
    assert all(str(run) in "".join(of_runs) for run in runs[:2])
    together = {
        (query, value)
        for query, value in found
        if "subject=runs%3A" in query and "metric=energy_mj" in query
    }
    assert [value for _, value in together] == [2 * RUN_MJ]
    emissions = [
        value
        for query, value in found
        if "subject=run%3A" in query and "metric=emission_ug" in query
    ]
    assert sum(emissions) == next(
        v for q, v in found if "subject=runs%3A" in q and "metric=emission_ug" in q
    )
    assert assert_each_figure_explains_itself(owner, page) > 8
    assert "not measured" not in life


def test_runs_that_were_not_measured_are_in_no_sum(lab: SmallLab, owner: Client) -> None:
    (run,) = use(lab)
    lost = create_run(lab, "unmeasured.py")
    register_rows(
        lab,
        row("d", runs=[edge(lost), edge(run, "used")]),
        row("m", runs=[edge(run)]),
        row("n", runs=[edge(lost)]),
    )
    page = shown(owner, "m")
    assert "2 runs led to it" in page
    assert 'data-unmeasured="1"' in page
    page = shown(owner, "n")
    assert "unknown: its run was not measured" in page
    assert "Footprint: not measured" in page
    assert 'data-unmeasured="1"' in page
    assert figures_on(page) == []


def test_more_runs_than_one_explanation_takes(lab: SmallLab, owner: Client) -> None:
    runs = use(lab, runs=53)
    register_rows(
        lab,
        *(
            row(f"d{i}", runs=[edge(run), edge(runs[-1], "used")])
            for i, run in enumerate(runs[:-1])
        ),
    )
    register_rows(lab, row("m", runs=[edge(runs[-1])]))
    page = shown(owner, "m")
    life = page.split('id="footprint-title"')[1].split("</section>")[0]
    listed = [value for query, value in figures_on(life) if "metric=energy_mj" in query]
    assert listed == [RUN_MJ] * 50
    assert "3 more runs" in life
    assert f'title="{53 * RUN_MJ:,} mJ exactly"'.replace(",", "\u202f") in life
    assert f'title="{3 * RUN_MJ:,} mJ exactly"'.replace(",", "\u202f") in life


def test_the_drawing_has_who_is_near(lab: SmallLab, owner: Client) -> None:
    runs = family(lab)
    page = shown(owner, "base")
    drawing = page.split('<svg class="lineage"')[1].split("</ol>")[0]
    for name in ("data", "tuned", "after"):
        assert (
            drawing.count(f'href="/artifacts/{digest(name)}/"') == 2
        )  # drawn, and as a step for narrow screens
    assert all(f'href="/runs/{run}/"' in drawing for run in runs)
    assert 'aria-current="page"' in drawing
    assert "initialised from</title>" in drawing
    assert "data-hidden-nodes" not in page


def test_a_wide_lineage_is_cut_with_a_word_and_whole_as_csv(lab: SmallLab, owner: Client) -> None:
    run = create_run(lab)
    register_rows(
        lab,
        row("data", runs=[edge(run, "used")]),
        *(row(f"m{i}", runs=[edge(run)]) for i in range(40)),
    )
    page = shown(owner, "data")
    assert 'data-hidden-nodes="32"' in page
    assert page.count('<svg class="node artifact') == 9
    lines = list(
        csv.DictReader(io.StringIO(text_of(owner.get(f"/artifacts/{digest('data')}/lineage.csv"))))
    )
    assert len(lines) == 41
    assert {line["whole_lineage"] for line in lines} == {"yes"}
    assert {line["energy_mj"] for line in lines} == {""}


def test_a_lineage_longer_than_what_is_read_is_not_all_in_the_csv(
    lab: SmallLab, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if fewer were read at once."""
    run = create_run(lab)
    register_rows(
        lab,
        row(
            "data",
            runs=[edge(each, "used") for each in [run, *(create_run(lab) for _ in range(60))]],
        ),
    )
    register_rows(lab, *(row(f"m{i}", runs=[edge(run)]) for i in range(40)))
    page = shown(owner, "data")
    assert ">all as CSV</a>" in page
    assert "</a> contains all of them." in page
    monkeypatch.setattr(artifact_shown, "load_lineage", partial(load_lineage, limit=40))
    page = shown(owner, "data")
    assert ">nearest 2\u202f000 as CSV</a>" in page
    assert "contains the nearest 2\u202f000 runs and artifacts" in page
    assert "all of" not in page.split('id="lineage-title"')[1]


def test_a_deep_one_and_a_circle_are_drawn(lab: SmallLab, owner: Client) -> None:
    made = chain(lab, 30)
    page = text_of(owner.get(f"/artifacts/{made[15].digest}/"))
    assert page.count('<svg class="node') == 13
    assert 'data-hidden-nodes="46"' in page
    run = create_run(lab)
    register_rows(lab, row("c", runs=[edge(run), edge(run, "used")]))
    assert shown(owner, "c").count('<svg class="node') == 2


def test_runs_with_their_results(lab: SmallLab, owner: Client) -> None:
    (run,) = use(lab, name="train-cats.py")
    points = {
        "val_acc": [Point(1, T0, 0.875)],
        "zeal": [Point(1, T0, 3.0)],
        "loss": [Point(1, T0, 0.25)],
    }
    add_points(lab=lab.lab, uuid=run, points=points, bound_node=None, now=None)
    register_rows(lab, row("m", runs=[edge(run)]))
    table = shown(owner, "m").split('id="runs-title"')[1]
    assert "train-cats.py" in table
    assert "val_acc 0.875, loss 0.25" in table
    assert "zeal" not in table


def test_pin_promote_and_back(lab: SmallLab, owner: Client) -> None:
    register_artifact(lab, "m", copies=at_paths("/m"))
    assert act(owner, "m", "pin", reason="Cited in May").status_code == 302
    page = shown(owner, "m")
    assert "◆ Pinned" in page
    assert "Cited in May" in page
    assert act(owner, "m", "promote").status_code == 302
    assert "<strong>Promoted</strong>" in shown(owner, "m")
    assert act(owner, "m", "demote").status_code == 302
    assert act(owner, "m", "unpin").status_code == 302
    page = shown(owner, "m")
    assert "◆ Pinned" not in page
    assert "Promoted</strong>" not in page
    log = text_of(owner.get("/audit/"))
    for words in ("Artifact pinned", "Artifact unpinned", "Artifact promoted", "Promotion removed"):
        assert words in log


def test_candidate_laid_aside_and_back(lab: SmallLab, owner: Client) -> None:
    register_artifact(lab, "m", kind="model", copies=at_paths("/m"), runs=[edge(create_run(lab))])
    steps = (
        ("mark_candidate", "<strong>Candidate</strong>", "unmark_candidate"),
        ("archive", "<strong>Archived</strong>", "unarchive"),
        ("unarchive", "<strong>Candidate</strong>", "unmark_candidate"),
        ("unmark_candidate", "Mark as candidate …", "mark_candidate"),
    )
    assert "Mark as candidate …" in shown(owner, "m")
    for action, words, following in steps:
        assert act(owner, "m", action).status_code == 302, action
        page = shown(owner, "m")
        assert words in page
        assert f'name="action" value="{following}"' in page
    log = text_of(owner.get("/audit/"))
    for words in (
        "Artifact marked as candidate",
        "Candidate mark removed",
        "Artifact archived",
        "Artifact unarchived",
    ):
        assert words in log


def test_states_that_make_no_sense_are_not_offered(lab: SmallLab, owner: Client) -> None:
    register_artifact(lab, "m", kind="model", copies=at_paths("/m"), runs=[edge(create_run(lab))])

    def offered() -> set[str]:
        return set(
            re.findall(
                r'name="action" value="(mark_candidate|archive|unarchive|unmark_candidate)"',
                shown(owner, "m"),
            )
        )

    for state, expected in (
        ("stored", {"mark_candidate", "archive"}),
        ("candidate", {"unmark_candidate", "archive"}),
        ("promoted", {"archive"}),
        ("archived", {"unarchive"}),
        ("scheduled", set()),
        ("tombstone", set()),
    ):
        Artifact.objects.update(state=state)
        assert offered() == expected, state
    Artifact.objects.update(state="stored")
    LineageEdge.objects.all().delete()
    assert offered() == {"archive"}, "the producing run is unknown"


def test_described_and_undone(lab: SmallLab, owner: Client) -> None:
    register_artifact(lab, "m", kind="checkpoint", tags={"task": "cats"})
    told_ = {
        "kind": "model",
        "licence": "MIT",
        "note": "Good.",
        "tags": "task=cats\n\n size = small",
        "project": "demo",
    }
    reply = act(owner, "m", "describe", **told_)
    assert re.fullmatch(rf"/artifacts/{digest('m')}/\?done=\d+", reply["Location"])
    page = text_of(owner.get(reply["Location"]))
    it = Artifact.objects.get()
    assert (it.kind, it.licence, it.tags) == ("model", "MIT", {"task": "cats", "size": "small"})
    assert it.project == Project.objects.get(slug="demo")
    entry = re.search(r'name="entry" value="(\d+)"', page)
    assert entry
    assert act(owner, "m", "restore", entry=entry[1]).status_code == 302
    it.refresh_from_db()
    assert (it.kind, it.licence, it.note, it.tags, it.project) == (
        "checkpoint",
        "",
        "",
        {"task": "cats"},
        None,
    )
    reply = act(owner, "m", "restore", entry=entry[1])
    assert (reply.status_code, "changed again since" in text_of(reply)) == (409, True)
    assert (
        act(owner, "m", "describe", kind="checkpoint", tags="task=cats")["Location"]
        == f"/artifacts/{digest('m')}/"
    )


@pytest.mark.parametrize(
    ("action", "more", "status", "words"),
    [
    ("", {}, 400, "Unknown action"), ("sing", {}, 400, "Unknown action"),
    ("pin", {}, 400, 'data-field-error="reason"'),
    ("pin", {"reason": "x" * 301}, 400, 'data-field-error="reason"'),
    ("unpin", {}, 409, "not pinned"), ("demote", {}, 409, "not promoted"),
    ("mark_candidate", {}, 409, "Only checkpoints and models"),
    ("unmark_candidate", {}, 409, "not a candidate"), ("unarchive", {}, 409, "not archived"),
    ("restore", {}, 404, "no such entry"), ("restore", {"entry": "9" * 30}, 404, "no such entry"),
    ("describe", {"kind": "thing"}, 400, 'data-field-error="kind"'),
    ("describe", {"kind": "model", "tags": "cats"}, 400, 'data-field-error="tags"'),
    ("describe", {"kind": "model", "project": "nope"}, 400, 'data-field-error="project"'),
    ("describe", {"kind": "model", "project": "\x00"}, 400, 'data-field-error="project"'),
    ("describe", {"kind": "model", "note": "\x00"}, 400, 'data-field-error="note"'),
],
)  # fmt: skip
def test_what_cannot_be_done_is_said(
    lab: SmallLab, owner: Client, action: str, more: dict[str, str], status: int, words: str
) -> None:
    register_artifact(lab, "m")
    reply = act(owner, "m", action, **more)
    assert (reply.status_code, words in text_of(reply)) == (status, True)
    assert not AuditEntry.objects.filter(action__startswith="artifact.").exists()


def test_what_was_typed_stays_when_it_is_refused(lab: SmallLab, owner: Client) -> None:
    register_artifact(lab, "m")
    page = text_of(
        act(owner, "m", "describe", kind="model", licence="GPL-3.0", tags="cats", note="Mine.")
    )
    assert 'value="GPL-3.0"' in page
    assert re.search(r"<textarea[^>]*>\s*Mine\.</textarea>", page)


def test_all_errors_of_a_description_are_shown_at_once(lab: SmallLab, owner: Client) -> None:
    register_artifact(lab, "m")
    page = text_of(
        act(
            owner, "m", "describe", kind="thing", project="nope", licence="x" * 101, tags="cats\n=2"
        )
    )
    assert set(re.findall(r'data-field-error="(\w+)"', page)) == {
        "kind",
        "project",
        "licence",
        "tags",
    }
    assert page.split('data-field-error="tags"')[1].split("</div>")[0].count("is not a tag") == 2


def test_who_may_what(lab: SmallLab, owner: Client, viewer: Client, outsider: Client) -> None:
    it = register_artifact(lab, "m")
    member = User.objects.create_user(username="mia")
    Membership.objects.create(lab=lab.lab, user=member, role=Role.MEMBER)
    address = f"/artifacts/{it.digest}/"
    acts = ('value="pin"', 'value="promote"', 'value="archive"', 'value="describe"')
    assert [word in text_of(viewer.get(address)) for word in acts] == [False] * 4
    assert [word in text_of(owner.get(address)) for word in acts] == [True] * 4
    states = ("mark_candidate", "unmark_candidate", "promote", "demote", "archive", "unarchive")
    for action in ("pin", "unpin", *states, "describe", "restore"):
        assert viewer.post(address, {"action": action, "reason": "x"}).status_code == 403
        assert outsider.post(address, {"action": action, "reason": "x"}).status_code == 404
    assert client_of(member).post(address, {"action": "promote"}).status_code == 302
    pin(artifact=it, reason="by the owner", by=lab.owner, now=now_us())
    assert client_of(member).post(address, {"action": "unpin"}).status_code == 403
    assert "data-locked-pin" in text_of(client_of(member).get(address))
    assert owner.post(address, {"action": "unpin"}).status_code == 302


def test_the_questions_every_page_is_asked(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    register_artifact(lab, "m")
    address = f"/artifacts/{digest('m')}/"
    for path in ("", "lineage.csv"):
        assert_needs_sign_in(address + path)
        assert viewer.get(address + path).status_code == 200
        assert outsider.get(address + path).status_code == 404
    assert_only(owner, address, "GET", "POST")
    assert_only(owner, address + "lineage.csv", "GET")
    for wrong in ("xyz", "%00", "f" * 64, "f" * 65, "%F0%9F%98%80"):
        assert owner.get(f"/artifacts/{wrong}/").status_code == 404
    assert owner.get(f"{address}?done=abc").status_code == 200


def test_hostile_words_are_inert(lab: SmallLab, owner: Client) -> None:
    run = create_run(lab, HOSTILE)
    project = Project.objects.create(lab=lab.lab, slug="p", name=HOSTILE[:100], created_us=T0)
    register_rows(
        lab,
        row(
            HOSTILE,
            licence=HOSTILE,
            format="x",
            facts={HOSTILE: HOSTILE},
            tags={HOSTILE: HOSTILE},
            project=project.slug,
            copies=at_paths("/" + HOSTILE),
            runs=[edge(run), edge(run, "used")],
            user=HOSTILE,
        ),
    )
    act(owner, HOSTILE, "pin", reason=HOSTILE)
    page = shown(owner, HOSTILE)
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_queries_do_not_grow(lab: SmallLab, owner: Client) -> None:
    def family_of(first: int, count: int) -> None:
        runs = use(lab, runs=count, first=first)
        register_rows(
            lab,
            *(
                row(
                    f"d{first + i}",
                    copies=at_paths(f"/{first + i}"),
                    runs=[edge(run), edge(runs[0], "used")],
                )
                for i, run in enumerate(runs[1:])
            ),
        )
        register_rows(
            lab,
            row(
                "m",
                copies=at_paths(*(f"/m{first + i}" for i in range(count))),
                runs=[edge(runs[0])],
            ),
        )

    family_of(0, 3)
    address = f"/artifacts/{digest('m')}/"
    before = [queries(owner, address + path) for path in ("", "lineage.csv", "card.md")]
    family_of(100, 30)
    assert [queries(owner, address + path) for path in ("", "lineage.csv", "card.md")] == before


def test_a_run_says_what_it_made_and_read(lab: SmallLab, owner: Client) -> None:
    run = create_run(lab)
    address = f"/runs/{run.uuid}/"
    assert 'id="artifacts-title"' not in text_of(owner.get(address))
    register_rows(
        lab,
        row("made", bytes=GB, kind="model", runs=[edge(run)]),
        row("read", runs=[edge(run, "used")]),
    )
    few = queries(owner, address)
    page = text_of(owner.get(address))
    assert f'href="/artifacts/{digest("made")}/"' in page
    assert "1.00 GB" in page
    assert re.search(r"produced.*used", page, re.DOTALL)
    register_rows(lab, *(row(f"m{i}", runs=[edge(run)]) for i in range(30)))
    page = text_of(owner.get(address))
    assert "Latest 20 of 32" in page
    assert f'href="/artifacts/?run={run.uuid}"' in page
    assert queries(owner, address) <= few + 1
    assert Run.objects.count() == 1
    assert LineageEdge.objects.count() == 32
