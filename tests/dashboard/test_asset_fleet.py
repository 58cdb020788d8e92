"""/assets/fleet/ : what is still there by the year it was bought, what is past its planned end,
which lives end soon.
"""

import json
import re

import pytest
from django.test import Client

from apps.assets.services import Entry, record
from apps.core.units import US_PER_HOUR
from tests.assets.support import KG, YEAR, bought
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of
from tests.dashboard.test_assets import amounts

ADDRESS = "/assets/fleet/"
NOW = T0 + 2 * YEAR * US_PER_HOUR  # 1 Nov 2028


@pytest.fixture(autouse=True)
def _then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: NOW)


def test_empty_it_names_the_next_step(lab: SmallLab, owner: Client) -> None:
    assert 'href="/assets/new/"' in text_of(owner.get(ADDRESS))


def test_sums_by_year_and_kind_are_the_whole(lab: SmallLab, owner: Client) -> None:
    bought(lab, kg=10)
    bought(lab, kg=20, kind="server", name="gpu-01")
    bought(lab, kg=40, at_us=T0 + YEAR * US_PER_HOUR, years=1, name="second year")
    bought(lab, kg=None, at_us=T0 + YEAR * US_PER_HOUR, name="nobody knows")
    gone = bought(lab, kg=80, name="gone")
    record(asset=gone, entry=Entry("dispose", T0 + US_PER_HOUR), by=None, now=NOW)
    page = text_of(owner.get(ADDRESS))
    assert amounts(page, "tfoot") == [50 * KG, 20 * KG, 70 * KG]
    lead = page[page.index('class="lead"') :]
    assert amounts(lead)[0] == 70 * KG
    assert 'data-unknown-assets="1"' in page
    figure = json.loads(
        re.search(r'<script id="fleet-age" type="application/json">(.*?)</script>', page)[1]
    )  # type: ignore[index]
    assert {tuple(trace["x"]) for trace in figure["data"]} == {("2026", "2027")}
    counted = [sum(trace["y"]) for trace in figure["data"] if "yaxis" not in trace]
    assert counted == [3, 1]
    carbon = sum(sum(trace["y"]) for trace in figure["data"] if trace.get("yaxis") == "y2")
    assert carbon == pytest.approx(70)


def test_past_and_coming_ends(lab: SmallLab, owner: Client) -> None:
    bought(lab, name="over", years=1)
    bought(lab, name="soon", years=3, at_us=T0 - US_PER_HOUR * 24 * 60)
    bought(lab, name="later", years=4)
    bought(lab, name="stock", deployed=False)
    page = text_of(owner.get(ADDRESS))
    assert "33 % of 3 assets in service past the planned end" in page.replace("\u202f", " ")
    ending, over = page[page.index('id="ending-title"') :].split('id="over-title"')
    assert re.findall(r"/assets/\d+/\">(\w+)<", ending) == ["soon"]
    assert "in 305 days" in ending
    assert re.findall(r"/assets/\d+/\">(\w+)<", over) == ["over"]
    assert "1.0 years ago" in over


def test_queries_do_not_grow_and_who_may(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    bought(lab, name=HOSTILE, years=1)
    first = queries(owner, ADDRESS)
    for i in range(7):
        bought(lab, name=f"GPU {i}", years=1 + i % 3)
    assert queries(owner, ADDRESS) == first
    assert_needs_sign_in(ADDRESS)
    assert_only(owner, ADDRESS, "GET")
    page = text_of(viewer.get(ADDRESS))
    assert "GPU 3" in page
    assert HOSTILE not in page
    assert "GPU 3" not in text_of(outsider.get(ADDRESS))
