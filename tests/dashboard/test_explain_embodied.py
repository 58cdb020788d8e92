"""/explain/ of hardware: the sum of its charges, the piece of a life behind each, the figures it
rests on, both ledgers.
"""

import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.services.labs import create_project
from apps.assets.choices import ChargeKind
from apps.assets.jobs import use_all_job
from apps.assets.models import Asset
from apps.assets.services import Draft, Embodied, Entry, Facts, record, register, set_meter, store
from apps.carbon.figures.figure_query import ALLOCATION, INVENTORY, TOGETHER, FigureQuery
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.core.units import US_PER_HOUR
from tests.assets.support import H0, KG, YEAR, bought
from tests.builders import T0, SmallLab
from tests.dashboard.support import (
    HOSTILE,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    gpu,
    queries,
    text_of,
    use,
)

NOW = T0 + 3 * YEAR * US_PER_HOUR
THIN = "\u202f"


@pytest.fixture(autouse=True)
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: NOW)


def query(metric: str = ALLOCATION, **changes: Any) -> FigureQuery:
    return FigureQuery(metric=metric, from_hour=H0 - 9, to_hour=H0 + 15).replace(**changes)


def address(asked: FigureQuery, more: str = "") -> str:
    return f"/explain/?{asked.to_query_string()}{more}"


def server(lab: SmallLab) -> Asset:
    """A file server of 1 kg an hour: three quarters vision's, the rest of no known project."""
    made = bought(lab, kg=4 * YEAR, name="Files", kind="storage", now=NOW)
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    store(asset=made, project=vision, gigabytes=3_000, from_us=T0, by=lab.owner, now=NOW)
    store(asset=made, project=None, gigabytes=1_000, from_us=T0, by=lab.owner, now=NOW)
    return made


def parts_of(client: Client, asked: FigureQuery) -> int:
    lines = [
        line.split(",")
        for line in text_of(
            client.get(f"/explain/charges.csv?{asked.to_query_string()}")
        ).splitlines()
    ]
    return sum(int(line[lines[0].index("in_period_ug_co2e")]) for line in lines[1:])


def test_works(lab: SmallLab, owner: Client) -> None:
    server(lab)
    page = text_of(owner.get(address(query())))
    assert f'data-explain-value="{15 * KG}"' in page
    assert 'data-known-assets="1" data-unknown-assets="0"' in page
    assert "amortised over use (allocation)" in page
    assert "never added" in page
    assert f"3{THIN}000 GB" in page
    assert "a test&#x27;s figure" in page or "a test's figure" in page
    assert f"{KG * 4 * YEAR:,}".replace(",", THIN) in page, "the balance that is spread"
    assert "range <span data-range>10.5 – 19.5 kg" in page
    assert "data-citation" in page
    assert assert_each_figure_explains_itself(owner, page) >= 4


@pytest.mark.parametrize("metric", [ALLOCATION, INVENTORY])
def test_the_headline_is_the_sum_of_its_csv(lab: SmallLab, owner: Client, metric: str) -> None:
    gone = bought(lab, kg=11, name="Old", now=NOW)
    record(asset=gone, entry=Entry("dispose", T0 + 5 * US_PER_HOUR), by=lab.owner, now=NOW)
    server(lab)
    asked = query(metric)
    shown = re.search(r'data-explain-value="(\d+)"', text_of(owner.get(address(asked))))
    assert shown is not None
    assert int(shown[1]) == parts_of(owner, asked) > 0


@pytest.mark.parametrize("kind", [*ChargeKind.values, "unattributed"])
def test_each_kind_explains_itself(lab: SmallLab, owner: Client, kind: str) -> None:
    gone = bought(lab, kg=11, name="Old", now=NOW)
    record(asset=gone, entry=Entry("dispose", T0 + 5 * US_PER_HOUR), by=lab.owner, now=NOW)
    server(lab)
    asked = query(consumer=kind)
    assert f'data-explain-value="{parts_of(owner, asked)}"' in text_of(owner.get(address(asked)))


def test_down_to_the_device_days(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=3)
    asset = bought(lab, kg=4 * YEAR, device=lab.node.devices.get(key=gpu()), now=NOW)
    use_all_job(str(lab.lab.pk))
    assert Asset.objects.get(pk=asset.pk).charges.filter(project__slug="demo", kind="used").exists()
    page = text_of(owner.get(address(query(subject_kind="project", subject_key="demo"))))
    assert "<tr data-window>" in page
    assert "Use is measured by device" in page
    assert "demo" in page
    drill = re.search(r'href="(\?[^"]*row=[^"]*used[^"]*)#reading"', page)
    assert drill is not None
    assert "<tr data-window>" in text_of(owner.get("/explain/" + drill[1].replace("&amp;", "&")))


def test_the_catalogue_figure_stands_with_parts_source_licence_and_pack(
    lab: SmallLab, owner: Client
) -> None:
    model = HardwareModel.objects.create(
        kind="gpu", name="X100", match_key="x100", source="s", licence="l"
    )
    figure = EmbodiedFigure.objects.create(
        model=model,
        method="lca",
        total_ug=120 * KG,
        low_ug=80 * KG,
        high_ug=200 * KG,
        manufacture_ug=100 * KG,
        transport_ug=5 * KG,
        end_of_life_ug=15 * KG,
        includes_end_of_life=True,
        source="A study",
        licence="ODbL-1.0",
        pack="boavizta-odbl",
        confidence="read",
        uploaded_us=T0,
    )
    entry = Entry("purchase", T0, embodied=Embodied.of(figure), life_hours=YEAR)
    register(
        lab=lab.lab,
        draft=Draft(Facts("Card", "gpu", model=model), entry, deployed_us=T0),
        by=lab.owner,
        now=NOW,
    )
    page = text_of(owner.get(address(query())))
    for words in (
        "A study",
        "ODbL-1.0",
        'data-pack="boavizta-odbl"',
        "manufacture 100 kg",
        "end of life 15.0 kg",
        "80.0 kg",
    ):
        assert words in page, words


def test_an_asset_without_a_figure_is_unknown_and_not_zero(lab: SmallLab, owner: Client) -> None:
    asset = bought(lab, kg=None, now=NOW)
    page = text_of(owner.get(address(query(subject_kind="asset", subject_key=str(asset.pk)))))
    assert 'data-explain-value="unknown"' in page
    assert 'data-known-assets="0" data-unknown-assets="1"' in page
    bought(lab, kg=4, now=NOW)
    page = text_of(owner.get(address(query())))
    assert "≥" in page
    assert 'data-known-assets="1" data-unknown-assets="1"' in page


def test_without_any_asset_the_next_step_is_told(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(address(query())))
    assert 'data-explain-value="0"' in page
    assert "/assets/discovered/" in page


def test_use_and_hardware_together_are_two_figures_and_their_sum(
    lab: SmallLab, owner: Client
) -> None:
    use(lab)
    server(lab)
    page = text_of(owner.get(address(query(TOGETHER))))
    cells = re.findall(r'<td class="num">([\d\u202f]+)</td>\s*</tr>', page)
    values = [int(cell.replace(THIN, "")) for cell in cells]
    assert len(values) == 3
    assert values[0] + values[1] == values[2]
    assert values[1] == 15 * KG
    assert f'data-explain-value="{values[2]}"' in page
    assert assert_each_figure_explains_itself(owner, page) >= 4


def test_pages_of_fifty(lab: SmallLab, owner: Client) -> None:
    for i in range(52):
        bought(lab, name=f"Card {i}", now=NOW)
    page = text_of(owner.get(address(query())))
    assert page.count("<tr data-entry") == 50
    assert "52 rows, page 1 of 2" in page
    assert text_of(owner.get(address(query(), "&page=2"))).count("<tr data-entry") == 2
    assert "data-past-end" in text_of(owner.get(address(query(), "&page=99")))


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    server(lab)
    pages = [address(query(metric)) for metric in (ALLOCATION, INVENTORY, TOGETHER)]
    few = [queries(owner, page) for page in pages]
    for i in range(20):
        asset = bought(lab, name=f"Card {i}", now=NOW)
        set_meter(asset=asset, node=lab.node, from_us=T0, by=lab.owner, now=NOW)
    assert [queries(owner, page) for page in pages] == few
    assert max(few) <= 24


def test_anonymous_and_wrong_method(lab: SmallLab, owner: Client) -> None:
    for path in (address(query()), f"/explain/charges.csv?{query().to_query_string()}"):
        assert_needs_sign_in(path)
        assert_only(owner, path, "GET")


def test_an_outsider_sees_nothing_of_it(lab: SmallLab, outsider: Client) -> None:
    asset = server(lab)
    own = query(subject_kind="asset", subject_key=str(asset.pk))
    assert outsider.get(address(own)).status_code == 404
    assert outsider.get(f"/explain/charges.csv?{own.to_query_string()}").status_code == 404
    assert "Files" not in text_of(outsider.get(address(query())))
    assert "Files" not in text_of(outsider.get(address(query(), f"&asset={asset.pk}&row=1")))


@pytest.mark.parametrize(
    "more",
    [
        "&consumer=overhead",
        "&quality=COUNTER",
        "&os_user=ada",
        "&asset=x",
        "&page=0",
        "&scope=9",
        "&subject=run:1",
    ],
)
def test_bad_input_is_told_in_words(lab: SmallLab, owner: Client, more: str) -> None:
    response = owner.get(f"/explain/?metric=embodied_ug&from=2026-11-01&to=2026-11-09{more}")
    assert response.status_code == 400
    assert 'data-error="400"' in text_of(response)
    assert (
        owner.get("/explain/charges.csv?metric=energy_mj&from=2026-11-01&to=2026-11-09").status_code
        == 400
    )
    assert (
        owner.get(
            "/explain/ledger.csv?metric=embodied_ug&from=2026-11-01&to=2026-11-09"
        ).status_code
        == 400
    )


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    bought(lab, name=HOSTILE[:150], now=NOW)
    bought(lab, name="=HYPERLINK(1)", now=NOW)
    page = text_of(owner.get(address(query())))
    assert "<script>alert" not in page
    assert "'=HYPERLINK(1)" in text_of(
        owner.get(f"/explain/charges.csv?{query().to_query_string()}")
    )
