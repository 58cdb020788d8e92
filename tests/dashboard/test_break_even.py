"""From which chance of reuse on keeping pays: accounting's worked examples through services and
pages; the same on the page of an artifact, in a plan, in its CSV and over the API."""

import csv
import io
import re
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client

from apps.accounts.services.labs import issue_user_token
from apps.artifacts import costs
from apps.artifacts.choices import Medium
from apps.artifacts.cleanup.plans import select_items
from apps.artifacts.cleanup.totals import artifact_storage_mj, plan_totals
from apps.artifacts.costs import retraining_costs
from apps.artifacts.models import Artifact, CleanupPlan, Copy
from apps.artifacts.storage_model import (
    HOURS_PER_YEAR,
    MEDIUM_POWER,
    break_even,
    storage_mj,
    to_ppm,
)
from apps.carbon.figures.energy import Figure
from apps.carbon.services import apply_factors
from apps.core.clock import now_us
from apps.dashboard.formatting import THIN
from apps.fleet.services import set_pue
from apps.runs.models import Run
from tests.api.conftest import Caller
from tests.artifacts.sample_plans import proposed_plan
from tests.artifacts.support import at_paths, create_run, digest, edge, register_rows, row
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import figures_on, text_of
from tests.dashboard.test_storage import exactly

WH_MJ = 3_600_000
HDD = MEDIUM_POWER[Medium.HDD].uwh
BERT_BYTES, BERT_MJ = 1_300_000_000, 630 * WH_MJ
COPY_MJ = storage_mj(BERT_BYTES, HOURS_PER_YEAR, HDD, 1_400_000)
SENTENCE = "Storing it pays off if the chance of needing it again is above 4.93 % a year."


def measured(lab: SmallLab, energy_mj: int, name: str, minutes: int = 1, seq: int = 0) -> Run:
    """Return a finished run that took so much, evenly over minutes on a GPU."""
    run = create_run(lab, name)
    each, key = energy_mj // minutes, f"run:{run.uuid}"
    windows = [
        W(
            "gpu:GPU-1111",
            each,
            start_us=T0 + i * MINUTE,
            end_us=T0 + (i + 1) * MINUTE,
            seq=i,
            shares=((key, each),),
        )
        for i in range(seq, seq + minutes)
    ]
    assert push(lab.node, windows) == [["accepted"]] * minutes
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0 + (seq + minutes) * MINUTE)
    return run


def model(
    name: str, run: Run | None, *copies: dict[str, str], size: int = BERT_BYTES
) -> dict[str, Any]:
    return row(name, kind="model", bytes=size, copies=list(copies), runs=[edge(run)] if run else [])


def exact(value: int) -> str:
    return f'title="{value:,} mJ exactly"'.replace(",", THIN)


def ticked(lab: SmallLab) -> CleanupPlan:
    """A plan of all that is due, all of it ticked: what a finished run made last is for review."""
    plan = proposed_plan(lab)
    lines = list(plan.items.values_list("pk", flat=True))
    select_items(plan=plan, selected=lines, listed=lines, by=lab.owner, now=now_us())
    return plan


def page_of(client: Client, plan: CleanupPlan) -> str:
    return text_of(client.get(f"/artifacts/cleanup/{plan.uuid}/"))


def csv_of(client: Client, plan: CleanupPlan) -> list[dict[str, str]]:
    return list(
        csv.DictReader(io.StringIO(text_of(client.get(f"/artifacts/cleanup/{plan.uuid}.csv"))))
    )


def api_of(lab: SmallLab, plan: CleanupPlan) -> dict[str, Any]:
    caller = Caller(issue_user_token(lab=lab.lab, user=lab.owner, now=now_us()))
    found: dict[str, Any] = caller("GET", f"artifacts/plans/{plan.uuid}/").json()  # type: ignore[attr-defined]
    return found


def test_a_terabyte_on_a_disk_for_a_year(lab: SmallLab, owner: Client) -> None:
    """1 TB, 0.65 Wh per TB-hour, no PUE: 5.694 kWh."""
    register_rows(lab, row("a", bytes=10**12, copies=at_paths("/a")), now=T0)
    year = exact(5_694 * WH_MJ)
    storage = text_of(owner.get("/artifacts/storage/"))
    assert year in storage
    assert re.search(r"<h1>.{0,200}5\.69", storage, re.DOTALL)
    assert year in text_of(owner.get(f"/artifacts/{digest('a')}/"))


def test_a_model_that_is_kept_three_times(lab: SmallLab, owner: Client) -> None:
    """A BERT run of 0.63 kWh, 1.3 GB on three hard disks at PUE 1.4: 0.031 kWh a year, keep
    above a chance of 5 %.
    """
    set_pue(site=lab.site, pue_ppm=1_400_000, from_us=T0)
    apply_factors(lab=lab.lab)
    run = measured(lab, BERT_MJ, "bert.py", minutes=126)  # 300 W for 2.1 hours
    register_rows(lab, model("bert", run, *at_paths("/a/bert", "/b/bert", "/c/bert")), now=T0)
    year_mj, chance = 3 * COPY_MJ, Fraction(3 * COPY_MJ, BERT_MJ)
    assert round(year_mj / WH_MJ / 1000, 3) == 0.031
    assert round(chance * 100) == 5

    page = text_of(owner.get(f"/artifacts/{digest('bert')}/"))
    assert exact(year_mj) in page
    assert page.count(exact(COPY_MJ)) == 3
    assert SENTENCE in page
    assert {value for query, value in figures_on(page) if "metric=energy_mj" in query} == {BERT_MJ}

    rows = exactly(text_of(owner.get("/artifacts/storage/")), "By project")
    assert [energy for energy, _ in rows] == [str(year_mj)] * 2, "its project, and the total"

    plan = ticked(lab)
    page = page_of(owner, plan)
    assert page.count(exact(COPY_MJ)) == 3, "each line"
    assert page.count(exact(BERT_MJ)) == 3 + 1
    assert exact(year_mj) in page
    assert (
        re.findall(r'<span title="([^"]*)">([^<]*% a year)</span>', page)
        == [(SENTENCE, "4.93 % a year")] * 3
    )
    assert page.count(SENTENCE) == 3 + 1, "and of the plan as a whole"
    assert "no copy remained" not in page
    assert "another copy remains" not in page

    ppm = to_ppm(chance)
    assert ppm == 49_348
    assert [line["break_even_ppm_a_year"] for line in csv_of(owner, plan)] == [str(ppm)] * 3
    found = api_of(lab, plan)
    assert [line["break_even_ppm_a_year"] for line in found["lines"]] == [ppm] * 3
    assert (found["sums"]["break_even_ppm_a_year"], found["sums"]["one_of_several"]) == (ppm, 0)


def test_one_of_three_copies_stays(lab: SmallLab, owner: Client) -> None:
    register_rows(
        lab,
        model(
            "bert",
            measured(lab, BERT_MJ // 126, "bert.py"),
            *at_paths("/a/bert", "/b/bert", "/c/bert"),
        ),
        now=T0,
    )
    plan = ticked(lab)
    last = plan.items.get(is_last_copy=True)
    select_items(plan=plan, selected=[], listed=[last.pk], by=lab.owner, now=now_us())
    page = page_of(owner, plan)
    assert (
        page.count("if no copy remained")
        == page.count('<span class="u">another copy remains</span>')
        == 2
    )
    assert 'data-one-of-several="2"' in page
    assert api_of(lab, plan)["sums"]["one_of_several"] == 2


def test_the_last_copy_of_it(lab: SmallLab, owner: Client) -> None:
    run = measured(lab, BERT_MJ, "bert.py", minutes=126)
    register_rows(lab, model("bert", run, *at_paths("/a/bert")), now=T0)
    plan = ticked(lab)
    chance = break_even(plan.items.get().storage_mj, BERT_MJ)
    assert chance is not None
    page = page_of(owner, plan)
    assert "if no copy remained" not in page
    assert "another copy remains" not in page
    assert [line["break_even_ppm_a_year"] for line in csv_of(owner, plan)] == [str(to_ppm(chance))]
    (sentence,) = set(re.findall(r"Storing it pays off if [^<\"]* a year\.", page))
    assert sentence in text_of(owner.get(f"/artifacts/{digest('bert')}/")), "what its own page says"


@pytest.mark.parametrize("what", ["medium", "making"])
def test_what_is_not_known_is_no_chance(lab: SmallLab, owner: Client, what: str) -> None:
    run = (
        measured(lab, BERT_MJ // 126, "bert.py") if what == "medium" else create_run(lab, "bert.py")
    )
    Run.objects.update(state="finished", ended_us=T0 + MINUTE)
    media = [
        *at_paths("/a/bert"),
        *at_paths("/b/bert", medium="unknown" if what == "medium" else "hdd"),
    ]
    register_rows(lab, model("bert", run, *media), now=T0)
    own = text_of(owner.get(f"/artifacts/{digest('bert')}/"))
    assert "Storing it pays off" not in own
    assert ("the medium of a copy is unknown" in own) == (what == "medium")
    plan = ticked(lab)
    page = page_of(owner, plan)
    assert page.count('<td class="num hide"><span class="u">unknown</span></td>') == 2
    assert "Break-even reuse probability: unknown." in page
    assert "Storing it pays off" not in page
    assert [line["break_even_ppm_a_year"] for line in csv_of(owner, plan)] == ["", ""]
    found = api_of(lab, plan)
    assert [each["break_even_ppm_a_year"] for each in (*found["lines"], found["sums"])] == [
        None
    ] * 3


def test_what_takes_nothing_always_pays(lab: SmallLab, owner: Client) -> None:
    """A cartridge at rest: zero is known."""
    register_rows(
        lab,
        model("bert", measured(lab, BERT_MJ // 126, "bert.py"), *at_paths("/t", medium="tape")),
        now=T0,
    )
    plan = ticked(lab)
    page = page_of(owner, plan)
    assert ">always</span>" in page
    assert page.count("so it always pays off") == 2
    assert [line["break_even_ppm_a_year"] for line in csv_of(owner, plan)] == ["0"]


def test_of_several_runs_the_one_that_took_least_would_make_it_again(
    lab: SmallLab, owner: Client
) -> None:
    first = measured(lab, 6_000_000, "first.py", seq=0)
    last = measured(lab, 18_000_000, "last.py", seq=1)
    Run.objects.filter(pk=last.pk).update(started_us=T0 + MINUTE)
    lost = create_run(lab, "not-measured.py")
    Run.objects.filter(pk=lost.pk).update(state="finished", ended_us=T0 + 9 * MINUTE)
    register_rows(
        lab, model("m", first, *at_paths("/m")), model("m", last), model("m", lost), now=T0
    )
    again = retraining_costs(lab.lab, Artifact.objects.values_list("pk", flat=True))
    assert [(each.run, each.energy_mj) for each in again.values()] == [(first, 6_000_000)]
    plan = ticked(lab)
    assert (plan.items.get().retrain_run, plan.items.get().retrain_mj) == (first, 6_000_000)
    page = text_of(owner.get(f"/artifacts/{digest('m')}/"))
    title = page.split("<h1>")[1].split("</h1>")[0]
    assert f"subject=run%3A{first.uuid}" in title
    assert f'href="/runs/{first.uuid}/">first.py</a>' in page.split("data-retraining-cost")[1]
    (chance,) = {int(line["break_even_ppm_a_year"]) for line in csv_of(owner, plan)}
    assert chance == to_ppm(Fraction(plan.items.get().storage_mj or 0, 6_000_000))


def test_a_run_that_took_nothing_known_makes_nothing_again_for_less(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing, some = create_run(lab), create_run(lab)
    register_rows(
        lab,
        model("m", nothing, *at_paths("/m")),
        model("m", some),
        model("n", nothing, *at_paths("/n")),
        now=T0,
    )
    spans = {nothing.uuid: (Figure(), 1, 2), some.uuid: (Figure(energy_mj=7), 1, 2)}
    monkeypatch.setattr(
        costs, "spans_of_runs", lambda _lab, uuids: {uuid: spans[uuid] for uuid in uuids}
    )
    numbers = dict(Artifact.objects.values_list("name", "pk"))
    found = retraining_costs(lab.lab, numbers.values())
    assert (found[numbers["m"]].run, found[numbers["n"]].run) == (some, nothing)
    assert break_even(COPY_MJ, found[numbers["n"]].energy_mj) is None


def test_a_run_is_in_the_sum_of_a_plan_once_and_each_artifact_with_all_its_copies(
    lab: SmallLab,
) -> None:
    run = measured(lab, 6_000_000, "train.py")
    register_rows(
        lab, model("m", run, *at_paths("/m", "/m2")), model("n", run, *at_paths("/n")), now=T0
    )
    plan = ticked(lab)
    each = plan.items.first()
    assert each is not None
    assert each.storage_mj is not None
    names = dict(Artifact.objects.values_list("pk", "name"))
    assert {names[pk]: mj for pk, mj in artifact_storage_mj(plan).items()} == {
        "m": 2 * each.storage_mj,
        "n": each.storage_mj,
    }
    some = [Artifact.objects.get(name="n").pk]
    assert artifact_storage_mj(plan, some) == {some[0]: each.storage_mj}
    assert plan_totals(plan).break_even == Fraction(3 * each.storage_mj, 6_000_000)
    plan.items.filter(artifact__name="m").update(selected=False)
    assert plan_totals(plan).break_even == Fraction(each.storage_mj, 6_000_000)
    assert artifact_storage_mj(plan)[Artifact.objects.get(name="m").pk] == 2 * each.storage_mj, (
        "ticked or not"
    )
    assert Copy.objects.count() == 3
