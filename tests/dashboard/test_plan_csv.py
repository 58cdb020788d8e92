"""/artifacts/cleanup/<uuid>.csv: what goes and what stays is what the page and the API say."""

from django.test import Client

from apps.artifacts.cleanup.plans import object_to_items
from apps.artifacts.models import Pin
from tests.artifacts.sample_plans import LATER, approved_plan, finished_run, proposed_plan
from tests.builders import SmallLab
from tests.dashboard.test_break_even import api_of, csv_of, page_of


def test_what_was_approved_and_is_kept_by_now_stays(lab: SmallLab, owner: Client) -> None:
    finished_run(lab)
    plan = approved_plan(lab)
    pinned, goes = plan.items.filter(selected=True).select_related("artifact").order_by("pk")
    Pin.objects.create(artifact=pinned.artifact, reason="thesis", from_us=LATER)
    found = {line["digest"]: (line["goes"], line["stays"]) for line in csv_of(owner, plan)}
    review = plan.items.get(selected=False).artifact.digest
    assert found == {
        pinned.artifact.digest: ("False", "pinned"),
        goes.artifact.digest: ("True", ""),
        review: ("False", ""),
    }
    told = api_of(lab, plan)["lines"]
    assert {line["digest"]: str(line["goes"]) for line in told} == {
        digest: goes for digest, (goes, _) in found.items()
    }
    assert (
        next(line["stays"] for line in told if line["digest"] == pinned.artifact.digest) == "pinned"
    )
    assert 'data-status="blocked">protected</span> <span class="u">pinned</span>' in page_of(
        owner, plan
    )


def test_of_a_draft_goes_what_is_ticked(lab: SmallLab, owner: Client) -> None:
    finished_run(lab)
    assert sorted((line["goes"], line["stays"]) for line in csv_of(owner, proposed_plan(lab))) == [
        ("False", ""),
        ("True", ""),
        ("True", ""),
    ]


def test_the_reason_of_who_objected_stands_beside_it(lab: SmallLab, owner: Client) -> None:
    finished_run(lab)
    plan = approved_plan(lab)
    line = plan.items.filter(selected=True).select_related("artifact").order_by("pk")[0]
    assert (
        object_to_items(plan=plan, items=[line.pk], reason="a paper", by=lab.owner, now=LATER) == 1
    )
    found = {each["digest"]: each for each in csv_of(owner, plan)}[line.artifact.digest]
    assert (found["goes"], found["stays"], found["objection"]) == ("False", "", "a paper")
