"""Ten replacement decisions computed by hand, three of them impossible. The figures in the comments
are worked out on paper and use none of the product's code.
"""

import re
from dataclasses import dataclass

import pytest
from django.test import Client

from apps.assets.models import Asset
from apps.core.clock import now_us
from apps.ingest.models import EnergyWindow
from tests.assets.support import bought
from tests.builders import SmallLab
from tests.dashboard.replacement import NEW, OLD, model, worked
from tests.dashboard.support import text_of

H100_SXM, A100_PCIE, T4, L4 = (
    "NVIDIA H100 80GB HBM3",
    "NVIDIA A100-PCIE-40GB",
    "Tesla T4",
    "NVIDIA L4",
)
# A PCIe card without idle time at PUE 1: each decision changes what it is about.
BASE = {"te_kg": 100, "old_w": 300, "old_idle_w": 0, "new_idle_w": 0, "idle_hours": 0,
        "hours": 6000, "new_w": 400, "ratio": "0.25", "pue": 1, "g_per_kwh": 100}  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """What is entered, and what the page shows: kind of the result, beginning of the title, years
    with their range ('' where an impossible replacement has none).
    """

    reason: str
    verdict: str
    title: str
    years: str
    entered: dict[str, object]
    new: str = NEW
    old: str = OLD
    without: tuple[str, ...] = ()


DECISIONS = (
    # 300 W − 400 W × 0.25 = 200 W saved; × 6 000 h = 1 200 kWh; × 100 g = 120 kg a year.
    # 100 kg ÷ 120 kg = 0.8333 years, less than the 4 years of a GPU.
    Decision("saves much", "replace", "Replace: ", "0.83", {}),
    # 1 200 kWh × 20 g = 24 kg a year; 100 ÷ 24 = 4.1667 years, more than 4.
    Decision("clean grid", "keep", "Keep: ", "4.2", {"g_per_kwh": 20}),
    # The same 4.1667 years, in a service life of 6 years.
    Decision("long life", "replace", "Replace: ", "4.2", {"g_per_kwh": 20, "life_years": 6}),
    # 60 W − 450 W × 0.2 = −30 W: nothing is saved.
    Decision("draws more", "never", "Keep: ", "never", {"old_w": 60, "new_w": 450, "ratio": "0.2"}),
    # Old: 250 W × 2 000 h + 50 W × 4 000 h = 700 kWh. New: 300 W × 1 000 h + 20 W × 5 000 h
    # (4 000 + 1 000) = 400 kWh. 300 kWh × 1.5 × 400 g = 180 kg a year; 150 ÷ 180 = 0.8333 years.
    Decision(
        "idle time",
        "replace",
        "Replace: ",
        "0.83",
        {
            "te_kg": 150,
            "old_w": 250,
            "old_idle_w": 50,
            "idle_hours": 4000,
            "hours": 2000,
            "new_w": 300,
            "new_idle_w": 20,
            "ratio": "0.5",
            "pue": "1.5",
            "g_per_kwh": 400,
        },
    ),
    # A slower card: 3 000 h × 2 = 6 000 h, longer than the old card is on (4 000 h). It idles 0 h,
    # not −2 000 h. Old: 300 × 3 000 + 30 × 1 000 = 930 kWh. New: 100 × 6 000 + 50 × 0 = 600 kWh.
    # 330 kWh × 500 g = 165 kg a year; 247.5 ÷ 165 = 1.5 years (with −2 000 h: 1.151 years).
    Decision(
        "slower card",
        "replace",
        "Replace: ",
        "1.5",
        {
            "te_kg": "247.5",
            "old_idle_w": 30,
            "idle_hours": 1000,
            "hours": 3000,
            "new_w": 100,
            "new_idle_w": 50,
            "ratio": 2,
            "g_per_kwh": 500,
        },
    ),
    # Peaks of a GTX 1080 Ti and an RTX 4090: FP32 11.34 and 82.58 TFLOP/s, ratio 0.1373; bandwidth
    # 484.4 and 1 008 GB/s, ratio 0.4806; geometric mean 0.2569. In the middle
    # 200 − 450 × 0.2569 = 84.4 W; × 4 000 h × 400 g = 135.0 kg a year; 150 ÷ 135.0 = 1.11 years.
    # At 0.4806: 200 − 216 = −16 W: never. The range runs from within 4 years to never.
    Decision(
        "range to never",
        "open",
        "Leave it open: ",
        "1.1",
        {"te_kg": 150, "old_w": 200, "hours": 4000, "new_w": 450, "g_per_kwh": 400},
        without=("ratio",),
    ),
    # 4 000 h × 3 = 12 000 h a year: a year has 8 760.
    Decision(
        "no time",
        "impossible",
        "Not possible: ",
        "",
        {"hours": 4000, "ratio": 3, "new_w": 10, "g_per_kwh": 1000},
    ),
    # The jobs use 30 GiB, an RTX 4090 has 24.
    Decision("no memory", "impossible", "Not possible: ", "", {"memory_gib": 30}),
    # A GTX 1080 Ti is a PCIe card, an H100 with HBM3 an SXM5 module.
    Decision("no slot", "impossible", "Not possible: ", "", {}, new=H100_SXM),
)


def _page(client: Client, card: Asset, new: str, entered: dict[str, object]) -> str:
    return text_of(client.get(f"/assets/{card.pk}/replacement/", {"new": model(new).pk, **entered}))


def _title(page: str) -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert found
    return found[1]


def _card(lab: SmallLab, old: str = OLD) -> Asset:
    return bought(lab, model=model(old), now=now_us())


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda each: each.reason)
def test_the_page_decides_as_computed_by_hand(
    lab: SmallLab, owner: Client, decision: Decision
) -> None:
    entered = {
        name: value
        for name, value in ({"memory_gib": 8} | BASE | decision.entered).items()
        if name not in decision.without
    }
    page = _page(owner, _card(lab, decision.old), decision.new, entered)
    assert f'data-verdict="{decision.verdict}"' in page
    assert _title(page).startswith(decision.title)
    found = re.search(r"<dt>Years</dt>\s*<dd>\s*(.*?)\s*</dd>", page)
    assert (found[1] if found else "") == decision.years
    if decision.verdict == "impossible":
        assert "Replace:" not in page
        assert page.index('data-requirement-state="unmet"') < page.index('id="inputs"')
    else:
        assert 'data-requirement-state="unmet"' not in page


def test_three_of_ten_are_impossible() -> None:
    assert len(DECISIONS) == 10
    assert [each.verdict for each in DECISIONS].count("impossible") == 3


def _memory(mib: int) -> None:
    assert EnergyWindow.objects.update(mem_max_mib=mib)


def test_the_memory_of_the_jobs_is_measured(lab: SmallLab, owner: Client) -> None:
    card = worked(lab, days=2).asset
    _memory(25 * 1024)
    page = _page(owner, card, NEW, {})
    assert 'data-verdict="impossible"' in page
    assert "used 25.0 GiB" in page
    assert not re.search(r"<a [^>]*>25\.0</a>", page), "no link to the energy"
    _memory(20 * 1024)
    assert 'data-verdict="impossible"' not in _page(owner, card, NEW, {})
    larger = _page(owner, card, NEW, {"memory_gib": "24.5"})
    assert 'data-verdict="impossible"' in larger, "the visitor's own value precedes"


def test_less_memory_than_the_old_card_without_a_measurement_is_left_open(
    lab: SmallLab, owner: Client
) -> None:
    page = _page(owner, _card(lab, A100_PCIE), L4, BASE | {"ratio": "0.1"})
    assert 'data-verdict="open"' in page
    assert _title(page).startswith("Leave it open: ")
    assert 'data-requirement-state="uncertain"' in page
    known = _page(owner, _card(lab, A100_PCIE), L4, BASE | {"ratio": "0.1", "memory_gib": 20})
    assert 'data-verdict="replace"' in known


def test_work_that_fits_only_at_one_end_of_the_range_is_left_open(
    lab: SmallLab, owner: Client
) -> None:
    """1080 Ti → T4: FP32 11.34 ÷ 8.141 = 1.39, bandwidth 484.4 ÷ 320 = 1.51. 5 900 h × 1.45 = 8 564
    h fit, 5 900 h × 1.51 = 8 931 h do not.
    """
    entered: dict[str, object] = {
        name: value for name, value in BASE.items() if name not in ("ratio", "new_w")
    } | {"new_w": 70, "hours": 5900, "memory_gib": 8}
    page = _page(owner, _card(lab), T4, entered)
    assert 'data-verdict="open"' in page
    assert 'data-requirement-state="uncertain"' in page


def test_a_form_factor_that_is_unknown_is_named_and_no_obstacle(
    lab: SmallLab, owner: Client
) -> None:
    card = bought(lab, model=None, now=now_us())
    page = _page(owner, card, NEW, BASE | {"memory_gib": 8})
    assert 'data-verdict="replace"' in page
    assert 'data-requirement-state="unknown"' in page
    assert "Not compared: form factor" in _title(page)


def test_a_whole_machine_has_no_slot_and_is_no_card(lab: SmallLab, owner: Client) -> None:
    server = bought(lab, kind="server", name="Server", now=now_us())
    page = _page(owner, server, NEW, BASE)
    assert 'data-verdict="impossible"' in page
