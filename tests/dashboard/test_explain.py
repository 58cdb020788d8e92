"""/explain/ : the equation, the ledger, the windows of an hour, the reading, the factor, the
citation.
"""

import re
from html import unescape
from itertools import product

import pytest
from django.test import Client

from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.units import emission_ug
from apps.fleet.services import correct_pue, set_pue, set_static_power
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    HOUR,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    gpu,
    queries,
    text_of,
    use,
)

THIN = "\u202f"


def query(metric: str = "emission_ug", **changes: str) -> FigureQuery:
    return FigureQuery(metric=metric, from_hour=HOUR - 5, to_hour=HOUR + 5).replace(**changes)


def address(asked: FigureQuery, more: str = "") -> str:
    return f"/explain/?{asked.to_query_string()}{more}"


def test_works(lab: SmallLab, owner: Client) -> None:
    run = use(lab)[0]
    page = text_of(owner.get(address(query())))
    value = sum(emission_ug(part, 1_000_000, 329_650_000) for part in (6_000_001, 4_000_000))
    assert f'data-explain-value="{value}"' in page
    assert "electricity of Cell Lab" in page
    assert "NVML total energy counter" in page
    assert f"1{THIN}000{THIN}000 → 11{THIN}000{THIN}001" in page
    assert f"6{THIN}000{THIN}001" in page
    assert f"/runs/{run}/" in page
    assert "Germany" in page
    assert "CC BY 4.0" in page
    assert "data-citation" in page
    assert "No factor for 2026 is published yet. The factor of 2025 is used." in page
    assert assert_each_figure_explains_itself(owner, page) >= 3


def test_the_headline_is_the_sum_of_its_ledger_csv(
    lab: SmallLab, owner: Client, subtests: pytest.Subtests
) -> None:
    set_static_power(node=lab.node, static_power_mw=45_000)
    correct_pue(site=lab.site, pue_ppm=1_371_113, by=lab.owner, now=T0)
    use(lab, runs=3)
    use(lab, runs=2, project=None, first=3)
    columns = {
        "energy_mj": "energy_mj",
        "facility_energy_mj": "facility_energy_mj",
        "emission_ug": "emission_ug_co2e",
    }
    for metric, consumer in product(columns, ("", "idle", "overhead", "unattributed")):
        with subtests.test(metric=metric, consumer=consumer):
            asked = query(metric, consumer=consumer)
            found = figure(lab.lab, asked)
            assert found.entries
            assert f'data-explain-value="{found.value(metric)}"' in text_of(
                owner.get(address(asked))
            )
            lines = [
                line.split(",")
                for line in text_of(
                    owner.get(f"/explain/ledger.csv?{asked.to_query_string()}")
                ).splitlines()
            ]
            place = lines[0].index(columns[metric])
            assert sum(int(line[place]) for line in lines[1:]) == found.value(metric)


def test_several_factors_are_a_table_whose_parts_add_up(lab: SmallLab, owner: Client) -> None:
    push(
        lab.node,
        [
            W(gpu(), 1_000_003),
            W(gpu(), 2_000_005, start_us=T0 + 60 * MINUTE, end_us=T0 + 61 * MINUTE, seq=1),
        ],
    )
    set_pue(site=lab.site, pue_ppm=1_400_000, from_us=T0 + 60 * MINUTE)
    from apps.core.jobs import run_until_idle

    run_until_idle(worker="test")
    page = text_of(owner.get(address(query())))
    parts = re.findall(r"<tr data-part>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r'<td class="num">([^<]*)</td>', part) for part in parts]
    emissions = [int(row[-1].replace(THIN, "")) for row in cells]
    assert len(emissions) == 3
    assert sum(emissions[:-1]) == emissions[-1] == figure(lab.lab, query()).emission_ug


def test_drill_into_an_hour_of_a_device(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=3)
    page = text_of(owner.get(address(query(), f"&hour=2026-11-02T08:00Z&device={gpu()}")))
    assert page.count("<tr data-window>") == 3
    assert "counter, split" in page


def test_a_window_over_hours_says_that_it_was_divided(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W(gpu(), 10, end_us=T0 + 180 * MINUTE, flags=2)])
    page = text_of(owner.get(address(query("energy_mj"))))
    assert "divided by duration" in page
    assert "recovered from the counter after a pause" in page


def test_the_rest_of_a_node_explains_its_model(lab: SmallLab, owner: Client) -> None:
    set_static_power(node=lab.node, static_power_mw=45_000)
    use(lab)
    page = text_of(owner.get(address(query("energy_mj", consumer="overhead"))))
    assert "45 W ×" in page
    assert "CPU and DRAM meters" in page


def test_without_a_factor_the_value_is_unknown_and_not_zero(db: None) -> None:
    lab = small_lab(zone="")
    use(lab)
    page = text_of(client_of(lab.owner).get(address(query())))
    assert 'data-explain-value="unknown"' in page
    assert 'data-missing="zone"' in page
    assert "0 g CO₂e" not in page


def test_facility_energy_without_a_pue_is_unknown_and_not_zero(
    lab: SmallLab, owner: Client
) -> None:
    use(lab)
    lab.node.applied_factors.all().delete()
    page = text_of(owner.get(address(query("facility_energy_mj"))))
    assert 'data-explain-value="unknown"' in page
    assert "PUE unknown" in page


def test_nothing_measured_is_said(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(address(query("energy_mj"))))
    assert 'data-entries="0"' in page
    assert 'data-explain-value="0"' in page


def test_pages_of_fifty(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=52)
    first = text_of(owner.get(address(query())))
    assert first.count("<tr data-entry") == 50
    assert "53 entries, page 1 of 2" in first
    assert text_of(owner.get(address(query(), "&page=2"))).count("<tr data-entry") == 3
    assert "data-past-end" in text_of(owner.get(address(query(), "&page=99")))


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    use(lab)
    one = queries(owner, address(query()))
    use(lab, runs=49, first=1)
    assert queries(owner, address(query())) == one
    assert one <= 20


def test_anonymous_and_wrong_method(lab: SmallLab, owner: Client) -> None:
    assert_needs_sign_in(address(query()))
    assert_needs_sign_in(f"/explain/ledger.csv?{query().to_query_string()}")
    assert_only(owner, address(query()), "GET")


def test_an_outsider_gets_404_for_each_subject(lab: SmallLab, outsider: Client) -> None:
    run = use(lab)[0]
    for kind, key in (
        ("run", str(run)),
        ("node", str(lab.node.uuid)),
        ("device", gpu()),
        ("project", "nope"),
    ):
        response = outsider.get(address(query(subject_kind=kind, subject_key=key)))
        assert response.status_code == 404, kind
        assert 'data-error="404"' in text_of(response)
    # The lab is the outsider's own: it holds nothing of another's, nor do its drills.
    assert 'data-explain-value="0"' in text_of(outsider.get(address(query())))
    assert (
        outsider.get(address(query(), f"&hour=2026-11-02T08:00Z&device={gpu()}")).status_code == 404
    )


@pytest.mark.parametrize(
    "bad",
    [
    "", "metric=mass&from=2026-11-01&to=2026-11-02",
    "metric=energy_mj&from=2026-11-02&to=2026-11-01",
    "metric=energy_mj&from=2026-11-01&to=2026-11-02&subject=cow:1",
    "metric=energy_mj&from=x&to=2026-11-02",
    "metric=energy_mj&from=2026-11-01&to=2026-11-02&accounting=market",
    "metric=energy_mj&from=2026-11-01&to=2026-11-02&page=0",
    "metric=energy_mj&from=2026-11-01&to=2026-11-02&page=x",
    "metric=energy_mj&from=2026-11-01&to=2026-11-02&hour=2026-11-01T00:00Z",
    "metric=energy_mj&from=2026-11-01&to=2026-11-02&hour=noon&device=gpu:x",
    "metric=energy_mj&from=2026-11-01&to=2026-11-02&unknown=1",
],
)  # fmt: skip
def test_bad_input_is_told_in_words(lab: SmallLab, owner: Client, bad: str) -> None:
    use(lab)
    response = owner.get(f"/explain/?{bad}")
    assert response.status_code == 400
    assert 'data-error="400"' in text_of(response)


def test_nul_in_a_key_is_not_found(lab: SmallLab, owner: Client) -> None:
    assert (
        owner.get(address(query(subject_kind="device", subject_key="gpu:\x00"))).status_code == 404
    )


def test_hostile_names_are_text_and_csv_is_disarmed(lab: SmallLab, owner: Client) -> None:
    use(lab, name=HOSTILE)
    use(lab, name="=HYPERLINK(1)", first=1)
    lab.lab.name = HOSTILE
    lab.lab.save()
    page = text_of(owner.get(address(query())))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    response = owner.get(f"/explain/ledger.csv?{query().to_query_string()}")
    assert "'=HYPERLINK(1)" in text_of(response)
    assert "\n" not in response["Content-Disposition"]


def test_the_rows_of_the_displayed_hour_are_marked(lab: SmallLab, owner: Client) -> None:
    use(lab)
    use(lab, first=60)
    entry = re.compile(r'<tr data-entry([^>]*)>.*?href="([^"]+)"')
    rows = entry.findall(text_of(owner.get(address(query("energy_mj")))))
    newest, oldest = rows[0][1], rows[-1][1]
    assert newest != oldest
    for opened, displayed in ((None, newest), (newest, newest), (oldest, oldest)):
        target = address(query("energy_mj")) if opened is None else f"/explain/{unescape(opened)}"
        entries = entry.findall(text_of(owner.get(target.split("#")[0])))
        marked = {drill for marks, drill in entries if 'aria-current="true"' in marks}
        assert marked == {displayed}, opened
        assert {drill for _, drill in entries} == {drill for _, drill in rows}
