"""/runs/duplicates/, /runs/duplicates.csv and /runs/duplicates/<pk>/ ."""

import csv
import io
import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Membership, Project, User
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.preflight.choices import FindingState
from apps.preflight.models import Avoided, DuplicateFinding, Preflight
from apps.runs.choices import RunState
from apps.runs.models import Fingerprint, IgnoredParameter, Run
from tests.builders import SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    queries,
    text_of,
)
from tests.preflight.support import judged, metric, seeds, spend, stored
from tests.preflight.test_ask import WEAK
from tests.runs.fingerprints import hex64


def repeats(
    lab: SmallLab, number: int = 1, *, first: int = 0, **facts: Any
) -> list[DuplicateFinding]:
    """Make runs that each repeat one run before, with energy."""
    facts.setdefault("user", lab.owner)
    wire = {
        "entry": hex64(f"entry {first}"),
        "code": {"hash": hex64(f"code {first}"), "normal": hex64(f"n {first}")},
    }
    stored(lab, minutes=first * 100, user=lab.owner, wire=wire, name=f"before-{first}.py")
    found = []
    for i in range(1, number + 1):
        run = stored(
            lab, minutes=first * 100 + i, wire=wire, **{"name": f"again-{first}-{i}.py", **facts}
        )
        spend(lab, run, 6_000_001, minute=first * 100 + i)
        found.append(judged(run))
    return [each for each in found if each is not None]


def decided(client: Client, chosen: list[DuplicateFinding], action: str, reason: str = "") -> Any:
    content = {"item": [finding.pk for finding in chosen], "action": action, "reason": reason}
    return client.post("/runs/duplicates/", content)


def test_the_inbox_lists_repeats_and_its_figures_explain_themselves(
    lab: SmallLab, owner: Client
) -> None:
    repeats(lab)
    repeats(lab, first=1)
    page = text_of(owner.get("/runs/duplicates/"))
    assert 'data-open="2"' in page
    assert "again-0-1.py" in page
    assert "before-0.py" in page
    assert ">Duplicate<" in page.replace(" <", "<")
    assert assert_each_figure_explains_itself(owner, page) == 6
    assert 12_000_002 in [value for query, value in figures_on(page) if "subject=runs%3A" in query]


def test_empty_says_how_to_ask_before(owner: Client) -> None:
    page = text_of(owner.get("/runs/duplicates/"))
    assert "labcarbon-collect check -- python train.py" in page
    assert 'data-open="0"' in page
    assert 'data-empty="confirmed"' in page
    assert 'data-empty="avoided"' in page


def test_what_was_not_measured_is_said(lab: SmallLab, owner: Client) -> None:
    stored(lab)
    judged(stored(lab, minutes=3))
    page = text_of(owner.get("/runs/duplicates/"))
    assert "not measured" in page
    assert figures_on(page) == []


def test_script_and_labels_are_among_the_compared_parts(lab: SmallLab, owner: Client) -> None:
    stored(lab, wire={"labels": {"experiment": "1" * 32}})
    repeat = stored(lab, minutes=5, wire={"labels": {"experiment": "2" * 32}})
    finding = judged(repeat)
    page = text_of(owner.get(f"/runs/duplicates/{finding.pk}/"))
    assert "Another label: experiment (not uploaded)." in page
    assert "data-missing-values" in page
    assert "run --full-command" in page
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    by_part = {row.split("</")[0].rpartition(">")[2].strip(): row for row in rows}
    assert "same" in by_part["Script"]
    assert "train.py" in by_part["Script"]
    assert "different" in by_part["Labels"]
    assert "experiment" in by_part["Labels"]


def test_a_label_is_shown_with_the_value_that_is_known(lab: SmallLab, owner: Client) -> None:
    stored(lab, wire={"labels": {"experiment": "1" * 32}, "told": {"experiment": "resnet"}})
    wire = {"labels": {"experiment": "2" * 32}, "told": {}}
    finding = judged(stored(lab, minutes=5, wire=wire))
    assert finding is not None
    page = text_of(owner.get(f"/runs/duplicates/{finding.pk}/"))
    assert "Another label: experiment (resnet → not uploaded)." in page
    assert '<td class="l any">not uploaded</td><td class="l any">resnet</td>' in page
    assert "data-missing-values" in page
    Fingerprint.objects.update(told={"experiment": "same name"})
    page = text_of(owner.get(f"/runs/duplicates/{finding.pk}/"))
    assert "data-missing-values" not in page


def test_filters_live_in_the_address(lab: SmallLab, owner: Client) -> None:
    repeats(lab)
    stored(lab, minutes=500, wire={"data": WEAK, "seeds": seeds(9)})
    judged(stored(lab, minutes=501, wire={"data": WEAK, "seeds": seeds(9)}, name="possible.py"))
    assert "possible.py" not in text_of(owner.get("/runs/duplicates/?certainty=verified"))
    only = text_of(
        owner.get(
            "/runs/duplicates/?certainty=possible&verdict=duplicate&text=poss&project=~unattributed"
        )
    )
    assert "possible.py" in only
    assert "again-0-1.py" not in only
    assert 'data-empty="findings"' in text_of(owner.get("/runs/duplicates/?verdict=near"))
    assert "again-0-1.py" not in text_of(owner.get("/runs/duplicates/?state=confirmed"))


@pytest.mark.parametrize(
    "query", ["state=x", "verdict=sweep", "certainty=x", "page=0", "page=x", "text=%00"]
)
def test_bad_filters_are_told_in_words(owner: Client, query: str) -> None:
    for address in (
        ("/runs/duplicates/", "/runs/duplicates.csv")
        if not query.startswith("page")
        else ("/runs/duplicates/",)
    ):
        response = owner.get(f"{address}?{query}")
        assert response.status_code == 400
        assert 'data-error="400"' in text_of(response)


def test_many_are_dismissed_at_once_with_a_reason_and_undone(lab: SmallLab, owner: Client) -> None:
    chosen = repeats(lab, 3)
    response = decided(owner, chosen, "dismissed")
    assert response.status_code == 400
    assert 'data-field-error="reason"' in text_of(response)
    assert decided(owner, chosen, "dismissed", "the loader draws at random").status_code == 302
    assert set(DuplicateFinding.objects.values_list("state", "reason")) == {
        ("dismissed", "the loader draws at random")
    }
    assert 'data-open="0"' in text_of(owner.get("/runs/duplicates/"))
    content = {"item": [finding.pk for finding in chosen], "action": "undo"}
    assert "3 findings are open again" in text_of(
        owner.post("/runs/duplicates/?state=dismissed", content, follow=True)
    )
    assert AuditEntry.objects.filter(lab=lab.lab, action__startswith="repeat.").count() == 2


def test_confirmed_repeats_are_summed(lab: SmallLab, owner: Client) -> None:
    chosen = repeats(lab, 2)
    decided(owner, chosen, "confirmed")
    page = text_of(owner.get("/runs/duplicates/"))
    assert 'data-empty="confirmed"' not in page
    assert 12_000_002 in [value for _, value in figures_on(page)]
    assert assert_each_figure_explains_itself(owner, page) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"action": "confirmed"}, "Select at least one finding"),
        ({"item": "x", "action": "confirmed"}, "Select findings of the list"),
        ({"item": "999999", "action": "confirmed"}, "No such finding"),
        ({"item": "1", "action": "burn"}, "Unknown action"),
        ({"item": "1", "action": "open"}, "Unknown action"),
    ],
)
def test_bad_decisions_are_told_in_words(owner: Client, content: dict[str, str], said: str) -> None:
    response = owner.post("/runs/duplicates/", content)
    assert response.status_code in (400, 404)
    assert said in text_of(response)


def test_a_viewer_looks_and_does_not_decide(lab: SmallLab, viewer: Client) -> None:
    chosen = repeats(lab)
    page = text_of(viewer.get("/runs/duplicates/"))
    assert 'name="item"' not in page
    assert decided(viewer, chosen, "confirmed").status_code == 403
    assert (
        viewer.post(f"/runs/duplicates/{chosen[0].pk}/", {"action": "confirmed"}).status_code == 403
    )
    assert DuplicateFinding.objects.get().state == FindingState.OPEN


def test_a_member_decides_about_own_runs_only(lab: SmallLab) -> None:
    user = User.objects.create_user(username="bob")
    Membership.objects.create(lab=lab.lab, user=user, role=Role.MEMBER)
    bob = client_of(user)
    theirs = repeats(lab)
    assert decided(bob, theirs, "confirmed").status_code == 409
    own = repeats(lab, first=1, user=user)
    assert decided(bob, own, "confirmed").status_code == 302
    page = text_of(bob.get("/runs/duplicates/?state=all"))
    assert page.count('name="item"') == 1
    assert lab.owner.username not in page.split("</header>", 1)[1]


def test_an_outsider_finds_nothing(lab: SmallLab, outsider: Client) -> None:
    chosen = repeats(lab)
    assert "again-0-1.py" not in text_of(outsider.get("/runs/duplicates/?state=all"))
    assert text_of(outsider.get("/runs/duplicates.csv")).count("\n") == 1
    assert outsider.get(f"/runs/duplicates/{chosen[0].pk}/").status_code == 404
    assert decided(outsider, chosen, "confirmed").status_code == 404
    assert (
        outsider.post(f"/runs/duplicates/{chosen[0].pk}/", {"action": "confirmed"}).status_code
        == 404
    )


def test_methods_and_sign_in(lab: SmallLab, owner: Client) -> None:
    (found,) = repeats(lab)
    for address in ("/runs/duplicates/", "/runs/duplicates.csv", f"/runs/duplicates/{found.pk}/"):
        assert_needs_sign_in(address)
    assert_only(owner, "/runs/duplicates/", "GET", "POST")
    assert_only(owner, f"/runs/duplicates/{found.pk}/", "GET", "POST")
    assert_only(owner, "/runs/duplicates.csv", "GET")


def test_csv(lab: SmallLab, owner: Client) -> None:
    (found,) = repeats(lab)
    rows = list(csv.DictReader(io.StringIO(text_of(owner.get("/runs/duplicates.csv")))))
    assert [(row["run"], row["verdict"], row["energy_mj"]) for row in rows] == [
        (str(found.run.uuid), "duplicate", "6000001")
    ]


def test_the_number_of_queries_does_not_depend_on_rows(lab: SmallLab, owner: Client) -> None:
    repeats(lab)
    few = queries(owner, "/runs/duplicates/")
    repeats(lab, 12, first=1)
    assert queries(owner, "/runs/duplicates/") == few


def test_a_finding_side_by_side(lab: SmallLab, owner: Client) -> None:
    (found,) = repeats(lab)
    spend(lab, found.original, 5_000_003, minute=50)
    metric(found.original, "val/acc", 0.91)
    page = text_of(owner.get(f"/runs/duplicates/{found.pk}/"))
    assert 'data-verdict="duplicate"' in page
    assert 'data-certainty="verified"' in page
    assert 'data-metric="0.91"' in page
    assert page.count("data-metric") == 1
    assert assert_each_figure_explains_itself(owner, page) == 4


def test_a_near_one_shows_both_values(lab: SmallLab, owner: Client) -> None:
    from labcarbon_collect.lc1 import param_hash

    def lr(value: float) -> dict[str, Any]:
        return {"params": {"lr": param_hash("lr", value)}, "told": {"lr": value}}

    stored(lab, wire=lr(0.1))
    found = judged(
        stored(lab, minutes=3, wire={**lr(0.10000000001), "hardware": {"gpus": "8 × V100"}})
    )
    assert found is not None
    page = text_of(owner.get(f"/runs/duplicates/{found.pk}/"))
    assert 'data-verdict="near"' in page
    for text in ("0.10000000001", ">0.1<", "8 × V100", "2 × NVIDIA A100"):
        assert text in page


def test_decide_and_undo_on_the_finding(lab: SmallLab, owner: Client) -> None:
    (found,) = repeats(lab)
    address = f"/runs/duplicates/{found.pk}/"
    page = text_of(
        owner.post(address, {"action": "intentional", "reason": "asked by a reviewer"}, follow=True)
    )
    assert "asked by a reviewer" in page
    assert 'data-state="intentional"' in page
    owner.post(address, {"action": "undo"})
    assert DuplicateFinding.objects.get().state == FindingState.OPEN
    response = owner.post(address, {"action": "dismissed"})
    assert response.status_code == 400
    assert 'data-field-error="reason"' in text_of(response)


def test_a_parameter_is_no_longer_counted_and_counted_again(lab: SmallLab, owner: Client) -> None:
    project = Project.objects.get(lab=lab.lab, slug="demo")
    (found,) = repeats(lab, charged_project=project)
    address = f"/runs/duplicates/{found.pk}/"
    assert 'data-form="ignore-parameter"' in text_of(owner.get(address))
    page = text_of(owner.post(address, {"action": "ignore", "name": "epochs"}, follow=True))
    assert "now ignores epochs" in page
    assert IgnoredParameter.objects.get().name == "epochs"
    run_until_idle(worker="test")
    assert 'data-form="count-parameter"' in text_of(owner.get(address))
    owner.post(address, {"action": "count", "name": "epochs"})
    assert not IgnoredParameter.objects.exists()
    for name in ("no-such", "a\x00"):
        assert owner.post(address, {"action": "ignore", "name": name}).status_code == 400
    acts = set(AuditEntry.objects.filter(lab=lab.lab).values_list("action", flat=True))
    assert {"parameter.ignored", "parameter.counted"} <= acts


def test_a_member_does_not_change_what_counts(lab: SmallLab) -> None:
    user = User.objects.create_user(username="bob")
    Membership.objects.create(lab=lab.lab, user=user, role=Role.MEMBER)
    (found,) = repeats(
        lab, user=user, charged_project=Project.objects.get(lab=lab.lab, slug="demo")
    )
    assert (
        client_of(user)
        .post(f"/runs/duplicates/{found.pk}/", {"action": "ignore", "name": "epochs"})
        .status_code
        == 403
    )


def test_avoided_counts_after_a_week_and_never_before(lab: SmallLab, owner: Client) -> None:
    run = stored(lab)
    spend(lab, run, 6_000_001)
    from apps.core.clock import now_us

    now = now_us()
    for i, days in enumerate((8, 3)):
        asked = Preflight.objects.create(
            lab=lab.lab,
            uuid=hex64(str(i))[:32],
            at_us=now,
            user=lab.owner,
            verdict="duplicate",
            certainty="verified",
            level="warn",
            matches=[str(run.uuid)],
            outcome="stopped",
        )
        Avoided.objects.create(
            lab=lab.lab, preflight=asked, run=run, f1=1, at_us=now - days * 24 * US_PER_HOUR
        )
    page = text_of(owner.get("/runs/duplicates/"))
    assert 'data-avoided="counted"' in page
    assert 'data-avoided="waiting"' in page
    assert [
        value for query, value in figures_on(page) if "runs%3A" in query and "energy_mj" in query
    ] == [6_000_001]
    assert assert_each_figure_explains_itself(owner, page) == 6
    Run.objects.filter(pk=run.pk).update(state=RunState.FAILED)
    page = text_of(owner.get("/runs/duplicates/"))
    assert page.count('data-avoided="unexpected"') == 2
    assert "runs%3A" not in page


def test_hostile_names_stay_text(lab: SmallLab, owner: Client) -> None:
    (found,) = repeats(lab, name=HOSTILE, host=HOSTILE)
    decided(owner, [found], "dismissed", HOSTILE)
    for address in ("/runs/duplicates/?state=all", f"/runs/duplicates/{found.pk}/"):
        page = text_of(owner.get(address))
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "&lt;script&gt;" in page


def test_a_refused_decision_keeps_its_reason(lab: SmallLab, owner: Client) -> None:
    page = text_of(
        owner.post(
            "/runs/duplicates/", {"action": "dismissed", "reason": "the loader draws at random"}
        )
    )
    assert "Select at least one finding" in page
    assert repeats(lab)
    page = text_of(
        owner.post(
            "/runs/duplicates/", {"action": "dismissed", "reason": "the loader draws at random"}
        )
    )
    assert 'value="the loader draws at random"' in page


def test_the_code_hash_has_one_name_and_form(lab: SmallLab, owner: Client) -> None:
    (found,) = repeats(lab)
    Fingerprint.objects.filter(run=found.run).update(commit="ab12cd34ef56", dirty=True)
    digest = f"#{hex64('code 0')[:6]}"
    run_page = text_of(owner.get(f"/runs/{found.run.uuid}/"))
    assert "<dt>Commit</dt><dd>ab12cd34ef with changes" in run_page
    assert f"<dt>Code hash</dt><dd>{digest}" in run_page
    pair = text_of(owner.get(f"/runs/duplicates/{found.pk}/"))
    row = pair.partition("<td>Code hash</td>")[2].partition("</tr>")[0]
    assert row.count(f"<code>{digest}</code>") == 2
    query = f"run={found.run.uuid}&run={found.original.uuid}"
    assert f"{digest}, commit ab12cd34ef with changes" in text_of(
        owner.get(f"/runs/compare/?{query}")
    )
