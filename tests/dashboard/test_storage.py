"""/artifacts/storage/ and /artifacts/storage.csv: the storage cost by project, medium and site."""

import csv
import io
import re
from html import unescape
from uuid import uuid4

from django.test import Client

from apps.accounts.models import Project
from apps.artifacts.models import Copy
from apps.artifacts.storage import storage_lots
from apps.artifacts.storage_model import total_storage_cost
from apps.carbon.models import AppliedFactor
from apps.carbon.services import apply_factors
from apps.core.clock import now_us
from apps.core.units import hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site, register_node, set_pue
from tests.artifacts.support import at_paths, register_rows, row
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of

PATH, CSV = "/artifacts/storage/", "/artifacts/storage.csv"
TB = 10**12


def lines(client: Client) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(client.get(CSV)))))


def exactly(page: str, title: str) -> list[tuple[str, ...]]:
    """Return the exact integers in the rows of the table under a heading, the total last."""
    table = page.split(f">{title}</h2>")[1].split("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.split("<tbody>")[1], re.DOTALL)
    return [
        tuple(re.sub(r"\D", "", value) for value in re.findall(r'title="([^"]*) exactly"', each))
        for each in rows
    ]


def some(lab: SmallLab) -> None:
    set_pue(site=lab.site, pue_ppm=1_500_000, from_us=T0)
    register_rows(
        lab,
        row("a", bytes=TB, project="demo", copies=at_paths("/a", "/b")),
        row("b", bytes=2 * TB, project="demo", copies=at_paths("/c", medium="ssd")),
        row("c", bytes=3 * TB, copies=at_paths("/d")),
    )
    apply_factors(lab=lab.lab)


def test_an_empty_lab_is_told_the_next_step(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(PATH))
    assert "labcarbon-collect scan" in page
    assert "data-chart" not in page
    assert lines(owner) == []


def test_each_table_sums_to_the_headline(lab: SmallLab, owner: Client) -> None:
    some(lab)
    whole = total_storage_cost(storage_lots(lab.lab, hour_of(now_us())))
    page = text_of(owner.get(PATH))
    heading = re.sub(r"<[^>]*>", "", page.split("<h1>")[1].split("</h1>")[0])
    assert re.fullmatch(
        r"Storage of 7\.00\xa0TB: [\d.]+\xa0kWh a year · [\d.]+\xa0kg CO₂e", heading
    ), heading
    total = (str(whole.energy.energy_mj), str(whole.emission_ug))
    for title in ("By project", "By medium", "By site"):
        *parts, last = exactly(page, title)
        assert last == total, title
        assert tuple(str(sum(int(part[i]) for part in parts)) for i in (0, 1)) == total, title
    factor = AppliedFactor.objects.filter(node=lab.node).order_by("-from_hour")[0].factor
    assert factor is not None
    # 5 TB on hard disks and 2 TB on solid state, PUE 1.5.
    energy_mj = round((5 * 0.65 + 2 * 1.2) * 8760 * 1.5 * 3_600_000)
    assert abs(whole.energy.energy_mj - energy_mj) <= 3
    assert abs(whole.emission_ug - energy_mj * factor.ug_per_kwh / 3.6e9) <= 3
    assert factor.source in unescape(page)


def test_the_board_tells_the_same_energy(lab: SmallLab, owner: Client) -> None:
    some(lab)
    board, storage = text_of(owner.get("/artifacts/")), text_of(owner.get(PATH))
    told_there = re.search(r'data-would title="([^"]*) exactly"', storage.split("<h1>")[1])
    assert told_there
    assert f'title="{told_there[1]} exactly"' in board
    assert f'href="{PATH}"' in board


def test_what_has_no_medium_has_no_invented_power(lab: SmallLab, owner: Client) -> None:
    register_rows(lab, row("u", bytes=TB, copies=at_paths("/u", medium="unknown")))
    page = text_of(owner.get(PATH))
    assert "Storage of 1.00\xa0TB: cost unknown" in page
    assert "1.00 TB on unknown medium, not included" in page
    assert 'Energy per year <span class="u">kWh</span>' in page
    assert 'Emissions per year <span class="u">kg CO₂e</span>' in page
    assert "labcarbon-collect scan --medium ssd" in page
    assert exactly(page, "By medium") == [(), ()]
    (line,) = lines(owner)
    assert (
        line["medium"],
        line["bytes"],
        line["energy_mj_a_year"],
        line["emission_ug_co2e_a_year"],
    ) == (
        "unknown",
        str(TB),
        "",
        "",
    )
    register_rows(lab, row("k", bytes=TB, copies=at_paths("/k")))
    apply_factors(lab=lab.lab)
    assert re.search(r"data-would[^>]*>≥", text_of(owner.get(PATH)).split("</h1>")[0])
    Copy.objects.update(medium="hdd")
    assert "--medium" not in text_of(owner.get(PATH))


def test_an_unknown_zone_leaves_carbon_unknown_and_says_what_to_do(
    lab: SmallLab, owner: Client
) -> None:
    site = create_site(lab=lab.lab, name="Cellar", kind=SiteKind.MACHINE_ROOM, zone="")
    node = register_node(lab=lab.lab, uuid=uuid4(), hostname="nas", facts={}, site=site, now=T0)
    register_rows(
        SmallLab(lab.lab, lab.owner, site, node), row("n", bytes=TB, copies=at_paths("/n"))
    )
    apply_factors(lab=lab.lab)
    page = text_of(owner.get(PATH))
    assert "kg CO₂e" not in page.split("<h1>")[1].split("</h1>")[0]
    assert f'<a href="/sites/{site.pk}/">no factor: choose a grid zone</a>' in page
    assert "data-without-factor" in page
    (line,) = lines(owner)
    assert line["energy_mj_a_year"]
    assert (line["emission_ug_co2e_a_year"], line["bytes_without_factor"]) == ("", str(TB))


def test_an_address_lies_at_no_site(lab: SmallLab, owner: Client) -> None:
    register_rows(lab, row("o", bytes=TB, copies=at_paths("s3://bucket/o", medium="object")))
    page = text_of(owner.get(PATH))
    assert "grid factor and PUE unknown" in page
    assert "1.00 TB without a PUE" in page
    assert "kg CO₂e" not in page.split("<h1>")[1].split("</h1>")[0]


def test_lines_hold_every_project_and_medium(lab: SmallLab, owner: Client) -> None:
    some(lab)
    found = lines(owner)
    assert {
        (line["project"], line["medium"]): (line["copies"], line["bytes"]) for line in found
    } == {
        ("demo", "hdd"): ("2", str(2 * TB)),
        ("demo", "ssd"): ("1", str(2 * TB)),
        ("", "hdd"): ("1", str(3 * TB)),
    }
    whole = total_storage_cost(storage_lots(lab.lab, hour_of(now_us())))
    assert sum(int(line["energy_mj_a_year"]) for line in found) == whole.energy.energy_mj
    assert sum(int(line["emission_ug_co2e_a_year"]) for line in found) == whole.emission_ug


def test_the_chart_stacks_media_and_hatches_the_unknown(lab: SmallLab, owner: Client) -> None:
    some(lab)
    for i in range(10):
        Project.objects.create(lab=lab.lab, slug=f"p{i}", name=f"P {i}", created_us=T0)
        register_rows(
            lab,
            row(
                f"x{i}",
                bytes=10**9 + i,
                project=f"p{i}",
                copies=at_paths(f"/x{i}", medium="unknown"),
            ),
        )
    page = text_of(owner.get(PATH))
    assert "4 more projects" in page
    assert '"shape": "/"' in page.split('id="storage"')[1]
    assert (
        'aria-label="Bytes of all copies by project, stacked by medium, TB. Largest project: '
        in page
    )


def test_hostile_names_are_shown_as_they_are(lab: SmallLab, owner: Client) -> None:
    Project.objects.create(lab=lab.lab, slug="p", name=HOSTILE[:100], created_us=T0)
    register_rows(lab, row("x", bytes=5, project="p", copies=at_paths("/x")))
    page = text_of(owner.get(PATH))
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_who_may_look(lab: SmallLab, owner: Client, viewer: Client, outsider: Client) -> None:
    some(lab)
    assert "7.00 TB" in text_of(viewer.get(PATH))
    assert "7.00 TB" not in text_of(outsider.get(PATH))
    assert lines(outsider) == []
    for address in (PATH, CSV):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET")


def test_queries_do_not_grow(lab: SmallLab, owner: Client) -> None:
    some(lab)
    before = {address: queries(owner, address) for address in (PATH, CSV)}
    for i in range(20):
        Project.objects.create(lab=lab.lab, slug=f"p{i}", name=f"P {i}", created_us=T0)
        site = create_site(lab=lab.lab, name=f"S {i}", kind=SiteKind.MACHINE_ROOM, zone="FR")
        node = register_node(
            lab=lab.lab, uuid=uuid4(), hostname=f"n{i}", facts={}, site=site, now=T0
        )
        here = SmallLab(lab.lab, lab.owner, site, node)
        register_rows(
            here,
            row(
                f"x{i}",
                bytes=5,
                project=f"p{i}",
                copies=at_paths(f"/x{i}", medium=("hdd", "ssd", "tape")[i % 3]),
            ),
        )
    assert {address: queries(owner, address) for address in (PATH, CSV)} == before
