"""/assets/ranking/ : the fleet by carbon per useful hour, worst first, the unknown apart."""

import csv
import io
import re
import uuid

import pytest
from django.test import Client

from apps.accounts.models import Project
from apps.accounts.services.labs import create_project
from apps.assets.amortisation import Charge
from apps.assets.models import EmbodiedCharge
from apps.assets.services import set_meter
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.rules import claim
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.ranking import ranking
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.energy.models import IdleShare
from apps.energy.services.idle import set_idle_policy
from apps.fleet.models import Device
from apps.fleet.services import create_site, register_node
from apps.ingest.models import Consumer
from tests.assets.support import bought
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.replacement import worked
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    queries,
    text_of,
)

ADDRESS = "/assets/ranking/?period=30d"


def _names(page: str) -> list[str]:
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    return re.findall(r'<tr><td><a href="/assets/\d+/">([^<]+)</a>', body)


def _rows(client: Client) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(client.get("/assets/ranking.csv?period=30d")))))


def test_the_worst_come_first_with_what_explains_them(lab: SmallLab, owner: Client) -> None:
    worked(lab, days=4, used=20, idle=4, gpu="gpu:GPU-0000-0001", name="Busy")
    worked(
        lab,
        days=4,
        used=1,
        idle=23,
        watts=30,
        idle_watts=30,
        gpu="gpu:GPU-0000-0002",
        name="Mostly idle",
    )
    worked(lab, days=4, used=0, idle=24, gpu="gpu:GPU-0000-0003", name="Never used")
    page = text_of(owner.get(ADDRESS))
    assert _names(page) == ["Never used", "Mostly idle", "Busy"]
    assert "Highest per useful hour: Never used, <span data-unused>" in page
    assert "more than half of the energy is idle" in page
    assert assert_each_figure_explains_itself(owner, page) == 3
    assert page.count("Replacement analysis<span") == 3


@pytest.mark.usefixtures("still")
def test_each_row_is_use_and_making_over_hours(lab: SmallLab, owner: Client) -> None:
    card = worked(lab, days=4, used=12, idle=6)
    row = _rows(owner)[0]
    use, embodied = int(row["use_emission_ug_co2e"]), int(row["embodied_charge_ug_co2e"])
    hours = 4 * 12
    assert row["used_hours"] == f"{hours}.000"
    assert row["measured_hours"] == f"{4 * 18}.000"
    assert row["energy_mj"] == str(4 * (12 * 200 + 6 * 20) * 3_600_000)
    assert row["idle_energy_mj"] == str(4 * 6 * 20 * 3_600_000)
    assert int(row["ug_co2e_per_used_hour"]) == (use + embodied + hours // 2) // hours
    told = ranking(
        lab=lab.lab, from_hour=hour_of(now_us()) - 29 * 24, to_hour=hour_of(now_us()) + 1
    )
    found = [
        Charge(each.from_hour, each.to_hour, each.amount_ug, None, each.kind).within(
            told.from_hour, told.to_hour
        )
        for each in EmbodiedCharge.objects.filter(asset=card.asset)
    ]
    assert embodied == sum(found) > 0


def test_a_dirtier_grid_makes_worse_and_is_told(lab: SmallLab, owner: Client) -> None:
    worked(lab, days=3, gpu="gpu:GPU-0000-0001", name="Here")
    worked(lab, days=3, gpu="gpu:GPU-0000-0004", name="Here, too")
    coal = create_site(lab=lab.lab, name="Coal", kind="workstation", zone="PL")  # type: ignore[arg-type]
    far = register_node(
        lab=lab.lab, uuid=uuid.uuid4(), hostname="far", facts={}, site=coal, now=now_us()
    )
    worked(SmallLab(lab.lab, lab.owner, coal, far), days=3, gpu="gpu:GPU-0000-0002", name="There")
    page = text_of(owner.get(ADDRESS))
    assert _names(page)[0] == "There"
    assert page.count("higher grid intensity than the other assets") == 1


def test_the_unknown_stand_apart_and_are_not_zero(lab: SmallLab, owner: Client) -> None:
    worked(lab, days=2, gpu="gpu:GPU-0000-0001", name="Making unknown", kg=None)
    nowhere = create_site(lab=lab.lab, name="No zone", kind="workstation", zone="")  # type: ignore[arg-type]
    node = register_node(
        lab=lab.lab, uuid=uuid.uuid4(), hostname="n", facts={}, site=nowhere, now=now_us()
    )
    worked(
        SmallLab(lab.lab, lab.owner, nowhere, node),
        days=2,
        gpu="gpu:GPU-0000-0002",
        name="Grid unknown",
    )
    worked(lab, days=2, gpu="gpu:GPU-0000-0003", name="Known")
    bought(lab, name="Without a meter", now=now_us())
    page = text_of(owner.get(ADDRESS))
    assert _names(page) == ["Known"]
    apart = page[page.index("unknown-title") :]
    assert "Making unknown</a>: embodied carbon unknown" in apart
    assert "Grid unknown</a>: a part of its energy has no emission factor" in apart
    assert "1 asset without a meter" in apart
    rows = {row["name"]: row for row in _rows(owner)}
    assert rows["Making unknown"]["embodied_charge_ug_co2e"] == ""
    assert rows["Grid unknown"]["use_emission_ug_co2e"] == ""
    assert rows["Grid unknown"]["ug_co2e_per_used_hour"] == ""


def test_a_card_that_changed_its_meter_has_a_figure_of_each(lab: SmallLab, owner: Client) -> None:
    first = worked(lab, days=4, used=10, idle=0, gpu="gpu:GPU-0000-0001", name="Changed")
    worked(lab, days=4, used=20, idle=0, gpu="gpu:GPU-0000-0002", name="Other")
    later = Device.objects.get(key="gpu:GPU-0000-0002")
    change = first.from_hour + 48
    set_meter(
        asset=first.asset, device=later, from_us=change * US_PER_HOUR, by=lab.owner, now=now_us()
    )
    row = next(row for row in _rows(owner) if row["name"] == "Changed")
    assert row["energy_mj"] == str((2 * 10 + 2 * 20) * 200 * 3_600_000)
    page = text_of(owner.get(ADDRESS))
    line = next(part for part in page.split("<tr>") if ">Changed</a>" in part)
    assert [value for _, value in figures_on(line)] == [
        figure(
            lab.lab, FigureQuery("emission_ug", low, high, "device", key, basis=lab.lab.basis)
        ).emission_ug
        for key, low, high in (
            ("gpu:GPU-0000-0001", first.from_hour - 24 * 40, change),
            ("gpu:GPU-0000-0002", change, change + 24 * 40),
        )
    ]


def test_a_machine_is_ranked_by_its_node(lab: SmallLab, owner: Client) -> None:
    worked(lab, days=2, used=10, idle=14, gpu="gpu:GPU-0000-0001", name="Card")
    server = bought(lab, kind="server", name="Server", kg=1000, now=now_us())
    set_meter(asset=server, node=lab.node, from_us=0, by=lab.owner, now=now_us())
    run_until_idle(worker="test")
    rows = {row["name"]: row for row in _rows(owner)}
    assert rows["Server"]["use_emission_ug_co2e"] == rows["Card"]["use_emission_ug_co2e"]
    assert rows["Server"]["used_hours"] == rows["Card"]["used_hours"] == "20.000"
    assert int(rows["Server"]["embodied_charge_ug_co2e"]) > int(
        rows["Card"]["embodied_charge_ug_co2e"]
    )


def test_idle_energy_that_is_spread_over_projects_stays_with_the_card(
    lab: SmallLab, owner: Client
) -> None:
    worked(lab, days=3, used=12, idle=12)
    before = _rows(owner)
    used = Consumer.objects.get(lab=lab.lab, key="proc:ada/train")
    create_project(lab=lab.lab, slug="a", name="A", now=T0)
    whole = [ConsumerSpan(used.pk, None, 0, 3_000_000)]
    claim(lab=lab.lab, spans=whole, project=Project.objects.get(slug="a"), by=None, now=now_us())
    set_idle_policy(
        lab=lab.lab, policy="by_energy", from_us=T0 - 40 * 24 * US_PER_HOUR, by=None, now=now_us()
    )
    run_until_idle(worker="test")
    assert IdleShare.objects.exists(), "nothing was spread: the test looks at nothing"
    assert [row["energy_mj"] for row in _rows(owner)] == [row["energy_mj"] for row in before]
    assert [row["idle_energy_mj"] for row in _rows(owner)] == [
        row["idle_energy_mj"] for row in before
    ]


def test_a_period_before_all_use_has_nothing_measured(lab: SmallLab, owner: Client) -> None:
    worked(lab, days=2)
    page = text_of(owner.get("/assets/ranking/?from=2020-01-01&to=2020-02-01"))
    assert 'data-empty="ranking"' in page
    assert "nothing was measured in this period" in page


def test_an_empty_register_says_what_comes_next(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get("/assets/ranking/"))
    assert 'data-empty="ranking"' in page


def test_a_bad_period_is_told_plainly(lab: SmallLab, owner: Client) -> None:
    for address in ("/assets/ranking/", "/assets/ranking.csv"):
        response = owner.get(f"{address}?period=forever")
        assert response.status_code == 400
        assert "is not a period" in text_of(response)


def test_who_may_look_and_how(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    worked(lab, days=1, name="Ours alone")
    for address in ("/assets/ranking/", "/assets/ranking.csv"):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET")
        assert "Ours alone" in text_of(viewer.get(address))
        assert "Ours alone" not in text_of(outsider.get(address))


def test_the_number_of_queries_does_not_grow(db: None) -> None:
    few, many = small_lab(name="Few"), small_lab(name="Many")
    worked(few, days=1)
    for i in range(12):
        worked(many, days=1, used=2, idle=1, gpu=f"gpu:GPU-0000-{i:04d}", name=f"Card {i}")
    counts = [queries(client_of(lab.owner), ADDRESS) for lab in (few, many)]
    assert counts[0] == counts[1]
