"""An engineer's day: forty GPUs from a spreadsheet, two moved, one out of a mining rig, one
machine upgraded, one card gone early; every page says the same."""

import re
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.models import Project
from apps.accounts.services.labs import create_project
from apps.assets.amortisation import second_hand_ug
from apps.assets.balances import accounts_of, through
from apps.assets.models import Asset
from apps.assets.services import Draft, Embodied, Entry, Facts, record, register, set_meter, upgrade
from apps.carbon.figures.embodied import embodied, embodied_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.catalog.selectors import match
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.core.units import US_PER_HOUR, hour_of
from apps.fleet.models import Device
from apps.runs.services.runs import RunFacts, put_run
from tests.assets.gpus import own_csv
from tests.assets.support import YEAR
from tests.builders import T0, SmallLab, W, push
from tests.dashboard.conftest import client_of
from tests.dashboard.support import assert_each_figure_explains_itself, text_of

pytestmark = pytest.mark.django_db
HOUR = US_PER_HOUR


def imported(lab: SmallLab, client: Client) -> list[Asset]:
    """Bring the spreadsheet as the page does, look at what it becomes, confirm."""
    address = client.post("/assets/import/", {"lines": own_csv()})["Location"]
    read = text_of(client.get(address))
    assert 'data-state="read" data-new="41"' in read
    assert 'data-pack="hubblo-cc-by-sa"' in read
    assert client.post(address, {"action": "register"}).status_code == 302
    return list(Asset.objects.filter(lab=lab.lab, kind="gpu").order_by("pk"))


def used(lab: SmallLab, card: Asset, project: Project, hours: int) -> None:
    """The card's own meter: some hours of a run of the project, then idle ones."""
    facts = RunFacts(name="train", started_us=T0, project=project.slug)
    run, _ = put_run(lab=lab.lab, uuid=uuid4(), facts=facts, by=None, bound_node=lab.node.uuid)
    shares = [
        ((f"run:{run.uuid}", 1000),) if hour < hours else (("idle", 10),) for hour in range(15)
    ]
    windows = [
        W(
            "gpu:GPU-1",
            sum(part for _, part in each),
            T0 + i * HOUR,
            T0 + (i + 1) * HOUR,
            i,
            each,
            None,
            "nvml_power",
        )
        for i, each in enumerate(shares)
    ]
    push(lab.node, windows)
    device = Device.objects.get(lab=lab.lab, key="gpu:GPU-1")
    set_meter(asset=card, device=device, from_us=T0, by=lab.owner, now=now_us())
    Job.objects.filter(kind__startswith="assets.").update(due_us=0)
    run_until_idle(worker="test")


def rig(lab: SmallLab, now: int) -> Asset:
    """A card of five years out of a mining rig, half its life left, then put to a use of ours."""
    figure = match("gpu", "NVIDIA GeForce RTX 3090", lab.lab).figure
    assert figure is not None
    left = second_hand_ug(
        figure.total_ug, way="remaining_life", used_hours=3 * YEAR, life_hours=6 * YEAR
    )
    assert left == figure.total_ug // 2
    opening = Entry(
        "second_hand",
        now - 2000 * HOUR,
        Embodied(left, figure=figure),
        life_hours=3 * YEAR,
        counterpart="A miner",
    )
    facts = Facts("RTX 3090 of the rig", "gpu", model=figure.model)
    card = register(
        lab=lab.lab, draft=Draft(facts, opening, now - 2000 * HOUR), by=lab.owner, now=now
    )
    record(asset=card, entry=Entry("repurpose", now - 1000 * HOUR), by=lab.owner, now=now)
    return card


@pytest.mark.usefixtures("still")
def test_every_page_is_consistent_after_a_day_of_changes(lab: SmallLab) -> None:
    now = now_us()
    client = client_of(lab.owner)
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    cards = imported(lab, client)
    assert len(cards) == 40
    run_until_idle(worker="test")
    old = Asset.objects.get(lab=lab.lab, kind="server")
    second = register(
        lab=lab.lab,
        by=lab.owner,
        now=now,
        draft=Draft(
            Facts("gpu-02", "server"),
            Entry("purchase", now - YEAR * HOUR, life_hours=5 * YEAR),
            now - YEAR * HOUR,
        ),
    )
    before = accounts_of([card.pk for card in cards], hour_of(now))
    for card in cards[:2]:
        record(
            asset=card, entry=Entry("move", now - 100 * HOUR, parent=second), by=lab.owner, now=now
        )
    assert accounts_of([card.pk for card in cards], hour_of(now)) == before, (
        "moving restarts nothing"
    )
    rigged = rig(lab, now)
    new = Draft(
        Facts("H100 instead", "gpu"),
        Entry("purchase", now, Embodied(164 * 10**9), life_hours=4 * YEAR),
    )
    upgrade(asset=old, out=cards[2], new=new, at_us=now - 50 * HOUR, by=lab.owner, now=now)
    gone = record(
        asset=cards[3],
        entry=Entry("dispose", now - 40 * HOUR, evidence="WEEE 7"),
        by=lab.owner,
        now=now,
    )
    used(lab, cards[4], vision, 9)

    hour = through(now_us())
    ids = list(Asset.objects.filter(lab=lab.lab).values_list("pk", flat=True))
    books = accounts_of(ids, hour)
    assert all(
        book.charged_ug + book.balance_ug + book.written_off_ug == book.total_ug
        for book in books.values()
    )
    assert books[gone.asset_id].written_off_ug == before[gone.asset_id].balance_ug + (
        before[gone.asset_id].charged_ug - books[gone.asset_id].charged_ug
    )
    query = FigureQuery(metric="embodied_ug", from_hour=0, to_hour=hour)
    whole = embodied(lab.lab, query, now_us())
    assert whole.embodied_ug == sum(
        book.charged_ug + book.written_off_ug for book in books.values()
    )
    by_charge = embodied_by(lab.lab, query, ["charge"], now_us())
    assert sum(part.embodied_ug for part in by_charge.values()) == whole.embodied_ug
    assert by_charge["vision",].embodied_ug > 0

    page = text_of(client.get("/assets/"))
    shown = [int(each) for each in re.findall(r'data-ug="(-?\d+)"', page)]
    for expected in (
        sum(book.total_ug for book in books.values()),
        sum(book.charged_ug for book in books.values()),
        sum(book.written_off_ug for book in books.values()),
        sum(book.balance_ug for book in books.values()),
    ):
        assert expected in shown
    assert "written off" in page
    told = text_of(client.get(f"/assets/{gone.asset_id}/"))
    assert str(books[gone.asset_id].written_off_ug) in told
    assert "WEEE 7" in told
    for shows_pack in (f"/assets/{rigged.pk}/", "/assets/new/offers/?kind=gpu&search=RTX 3090"):
        assert 'data-pack="hubblo-cc-by-sa"' in text_of(client.get(shows_pack)), shows_pack
    explained = [
        assert_each_figure_explains_itself(client, text_of(client.get(f"/assets/{pk}/")))
        for pk in (rigged.pk, second.pk, gone.asset_id, cards[0].pk, cards[4].pk)
    ]
    assert sum(explained) > 100
    for address in (
        "/assets/fleet/",
        "/",
        "/projects/",
        "/projects/vision/",
    ):
        assert client.get(address).status_code == 200, address
    explained = client.get(
        f"/explain/?{query.replace(subject_kind='project', subject_key='vision').to_query_string()}"
    )
    assert f'data-explain-value="{by_charge["vision",].embodied_ug}"' in text_of(explained)
