"""/artifacts/holds/: holds are placed, lifted and listed, and shown on artifact, project and
run.
"""

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.models import Project
from apps.artifacts.models import Artifact, Hold
from apps.artifacts.services.holds import place_hold
from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR, hour_of
from apps.runs.models import Run
from tests.artifacts.support import create_run, edge, register_artifact
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of

PAGE = "/artifacts/holds/"
PLACE = {"action": "place", "project": "demo", "reason": "x"}


@pytest.fixture
def run(lab: SmallLab) -> Run:
    return create_run(lab)


@pytest.fixture
def it(lab: SmallLab, run: Run) -> Artifact:
    return register_artifact(
        lab, "best.pt", project="demo", kind="model", copies=[{"path": "/m"}], runs=[edge(run)]
    )


def _post(client: Client, status: int = 302, **data: Any) -> str:
    reply = client.post(PAGE, data)
    assert reply.status_code == status, text_of(reply)[:2000]
    return text_of(reply) if status != 302 else text_of(client.get(reply["Location"]))


def test_an_artifact_is_held_and_the_hold_lifted(it: Artifact, owner: Client) -> None:
    assert "No active holds" in text_of(owner.get(PAGE))
    assert f"{PAGE}?artifact={it.digest}" in text_of(owner.get(f"/artifacts/{it.digest}/"))
    assert "Hold best.pt" in text_of(owner.get(f"{PAGE}?artifact={it.digest}"))
    page = _post(
        owner,
        action="place",
        artifact=it.digest,
        reason="paper under review",
        until_day="2099-03-31",
    )
    assert "“paper under review”" in page
    assert "◆ held" in page
    hold = Hold.objects.get()
    assert hold.until_hour is not None
    assert hold.until_hour * 3600 == 4_078_677_600, "the end of the day in Berlin: 22:00 UTC"
    assert "1 Apr 2099 00:00" in page
    listed = text_of(owner.get(PAGE))
    assert "1 active hold" in listed
    page = _post(owner, action="lift", hold=str(hold.pk))
    assert "Hold lifted" in page
    assert "No active holds" in page
    assert "lifted by" in page
    assert "not active any more" in _post(owner, 409, action="lift", hold=str(hold.pk))
    assert "◆ held" not in text_of(owner.get(f"/artifacts/{it.digest}/"))


def test_a_project_and_a_run_are_held(lab: SmallLab, it: Artifact, run: Run, owner: Client) -> None:
    page = _post(owner, action="place", project="demo", reason="audit", until_day="")
    assert "until lifted" in page
    assert "“audit”" in text_of(owner.get("/projects/demo/"))
    page = _post(owner, action="place", run=str(run.uuid), reason="legal", until_day="2099-01-01")
    assert "“legal”" in page
    page = text_of(owner.get(f"/artifacts/{it.digest}/"))
    assert "Project held" in page
    assert f'Held with run <a href="/runs/{run.uuid}/">' in page


def test_who_may(
    lab: SmallLab, it: Artifact, owner: Client, viewer: Client, member: Client, outsider: Client
) -> None:
    assert_needs_sign_in(PAGE)
    assert_only(owner, PAGE, "GET", "POST")
    assert viewer.get(f"{PAGE}?artifact={it.digest}").status_code == 200
    assert "data-place-hold" not in text_of(viewer.get(f"{PAGE}?artifact={it.digest}"))
    assert (
        viewer.post(PAGE, {"action": "place", "artifact": it.digest, "reason": "x"}).status_code
        == 403
    )
    Project.objects.create(lab=lab.lab, slug="ours-only", name="Ours", created_us=T0)
    for named in ({"artifact": it.digest}, {"project": "ours-only"}):
        assert outsider.get(PAGE, named).status_code == 404
        assert outsider.post(PAGE, {"action": "place", "reason": "x", **named}).status_code == 404
    assert "PIs and admins" in _post(member, 403, action="place", project="demo", reason="x")
    assert not Hold.objects.exists()
    _post(owner, action="place", artifact=it.digest, reason="x")
    pk = str(Hold.objects.get().pk)
    assert "Lift …" not in text_of(member.get(PAGE))
    assert "Another person placed this hold" in _post(member, 403, action="lift", hold=pk)
    assert outsider.post(PAGE, {"action": "lift", "hold": pk}).status_code == 404
    assert "best.pt" not in text_of(outsider.get(PAGE))


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        ({}, 400, "Unknown action"),
        ({"action": "place", "reason": "x"}, 400, 'data-field-error="project"'),
        ({"action": "place", "project": "demo", "reason": " "}, 400, 'data-field-error="reason"'),
        ({**PLACE, "until_day": "soon"}, 400, 'data-field-error="until_day"'),
        ({**PLACE, "until_day": "9999-12-31"}, 400, 'data-field-error="until_day"'),
        ({**PLACE, "until_day": "2020-01-01"}, 400, 'data-field-error="until_day"'),
        ({"action": "place", "project": "no", "reason": "x"}, 404, "No such project"),
        ({"action": "place", "artifact": "zz", "reason": "x"}, 404, "No such artifact"),
        ({"action": "place", "run": "x", "reason": "x"}, 404, "No such run"),
        ({"action": "place", "run": str(uuid4()), "reason": "x"}, 404, "No such run"),
        ({"action": "lift", "hold": "9"}, 404, "No such hold"),
        ({"action": "lift", "hold": "x"}, 404, "No such hold"),
    ],
)
def test_mistakes_are_told(
    lab: SmallLab, owner: Client, data: dict[str, str], status: int, words: str
) -> None:
    assert words in _post(owner, status, **data)
    assert not Hold.objects.exists()


@pytest.mark.parametrize("name", ["artifact", "run", "project"])
def test_an_unknown_subject_is_an_error_of_the_form(it: Artifact, owner: Client, name: str) -> None:
    page = _post(owner, 404, action="place", reason="", **{name: "x"})
    assert "data-place-hold" in page
    assert f"No such {name}" in page
    assert 'data-form-errors="2"' in page  # the missing reason too
    assert not Hold.objects.exists()


def test_all_errors_of_a_new_hold_are_shown_at_once(it: Artifact, owner: Client) -> None:
    page = _post(owner, 400, action="place", artifact=it.digest, reason="", until_day="soon")
    assert 'data-form-errors="2"' in page
    assert 'value="soon"' in page
    assert f'name="artifact" value="{it.digest}"' in page


def test_reasons_are_nothing_but_words(lab: SmallLab, it: Artifact, owner: Client) -> None:
    _post(owner, action="place", artifact=it.digest, reason=HOSTILE)
    for path in (PAGE, f"/artifacts/{it.digest}/"):
        page = text_of(owner.get(path))
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page


def test_what_is_over_is_listed_apart(lab: SmallLab, it: Artifact, owner: Client) -> None:
    then = now_us() - 10 * US_PER_HOUR
    place_hold(
        on=it,
        reason="long ago",
        until_hour=hour_of(then) + 2,
        by=lab.owner,
        is_manager=True,
        now=then,
    )
    page = text_of(owner.get(PAGE))
    assert "No active holds" in page
    assert "long ago" in page


def test_queries_do_not_grow_with_rows(
    lab: SmallLab, it: Artifact, run: Run, owner: Client
) -> None:
    demo = Project.objects.get(lab=lab.lab, slug="demo")

    def some() -> list[int]:
        for on in (it, run, demo):
            for _ in range(3):
                place_hold(
                    on=on, reason="x", until_hour=None, by=lab.owner, is_manager=True, now=now_us()
                )
        return [
            queries(owner, path)
            for path in (PAGE, f"/artifacts/{it.digest}/", f"/runs/{run.uuid}/", "/projects/demo/")
        ]

    assert some() == some()
