"""/assets/ : the list filtered, sorted and paged, whose totals are its headline, and what is
done to many at once.
"""

import re

import pytest
from django.test import Client

from apps.accounts.services.labs import create_project
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services import Draft, Embodied, Entry, Facts, record, register_many
from apps.core.units import US_PER_HOUR
from tests.assets.support import KG, YEAR, bought
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of

NOW = T0 + 365 * 24 * US_PER_HOUR
ADDRESS = "/assets/"
DAY = {"from_day": "2026-11-03", "from_time": "00:00"}


def amounts(page: str, part: str = "") -> list[int]:
    """Return the exact amounts on a page, or in its ``part``."""
    inside = page if not part else page[page.index(f"<{part}") : page.index(f"</{part}>")]
    return [int(value) for value in re.findall(r'data-ug="(-?\d+)"', inside)]


def names(page: str) -> list[str]:
    return re.findall(r'<td class="l any"><a href="/assets/\d+/">([^<]*)</a>', page)


def test_empty_it_names_the_next_steps(lab: SmallLab, owner: Client, viewer: Client) -> None:
    page = text_of(owner.get(ADDRESS))
    for step in ("/assets/import/", "/assets/discovered/", "/assets/new/"):
        assert f'href="{step}"' in page
    assert '<a href="/assets/" aria-current="page">' in page
    assert "/assets/new/" not in text_of(viewer.get(ADDRESS))


def test_the_totals_are_the_headline_and_the_sum_of_the_rows(
    lab: SmallLab, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: T0 + 2 * YEAR * US_PER_HOUR)
    for i in range(3):
        bought(lab, kg=100 + i, name=f"GPU {i}")
    gone = bought(lab, kg=40, name="Old one")
    record(asset=gone, entry=Entry("dispose", T0 + YEAR * US_PER_HOUR), by=None, now=NOW)
    bought(lab, kg=None, name="Nobody knows")
    page = text_of(owner.get(ADDRESS))
    whole, charged, left, off = amounts(page, "main")[:4]
    assert whole == 343 * KG
    assert charged + left + off == whole
    assert off == 30 * KG
    assert amounts(page, "tfoot") == [whole, charged, left]
    rows = amounts(page, "tbody")
    assert [sum(rows[i::3]) for i in range(3)] == [whole, charged, left]
    assert 'data-unknown-assets="1"' in page
    assert "unknown</span>" in page[page.index("Nobody knows") :]


def test_another_labs_assets_are_in_no_sum(lab: SmallLab, outsider: Client) -> None:
    bought(lab)
    assert 'data-empty="assets"' in text_of(outsider.get(ADDRESS))


@pytest.mark.parametrize(
    ("question", "left"),
    [
    ("kind=server", ["gpu-01"]), ("state=stock", ["Spare"]), ("owner=vision", ["gpu-01"]),
    ("owner=~lab&kind=gpu", ["A100 no. 1", "Spare"]), ("text=sn-7", ["Spare"]),
    ("text=INV", ["A100 no. 1"]), ("text=a100 no", ["A100 no. 1"]),
    ("site=~none&kind=server", ["gpu-01"]), ("text=nothing like it", []),
],
)  # fmt: skip
def test_filters_live_in_the_address(
    lab: SmallLab, owner: Client, question: str, left: list[str]
) -> None:
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    bought(lab, tag="INV-1")
    bought(lab, name="Spare", deployed=False, serial="SN-7")
    bought(lab, name="gpu-01", kind="server", opening={"project": vision})
    page = text_of(owner.get(f"{ADDRESS}?{question}"))
    assert names(page) == left
    assert left or 'data-empty="filters"' in page


@pytest.mark.parametrize(
    ("sort", "order"),
    [
    ("name", ["a", "b", "c", "x"]), ("-name", ["x", "c", "b", "a"]),
    ("embodied", ["b", "a", "c", "x"]), ("-embodied", ["c", "a", "b", "x"]),
    ("-balance", ["c", "a", "b", "x"]), ("age", ["a", "b", "x", "c"]),
    ("end", ["c", "a", "b", "x"]),
],
)  # fmt: skip
def test_sorts_live_in_the_address_and_what_is_not_known_comes_last(
    lab: SmallLab, owner: Client, sort: str, order: list[str]
) -> None:
    bought(lab, name="a", kg=20, at_us=T0 + 100 * US_PER_HOUR)
    bought(lab, name="b", kg=10, at_us=T0 + 90 * US_PER_HOUR, years=5)
    bought(lab, name="c", kg=90, years=4)
    bought(lab, name="x", kg=None, years=9, at_us=T0 + 50 * US_PER_HOUR)
    page = text_of(owner.get(f"{ADDRESS}?sort={sort}"))
    assert names(page) == order
    assert f'aria-sort="{"descending" if sort.startswith("-") else "ascending"}"' in page


@pytest.mark.parametrize(
    "question",
    ["kind=toaster", "state=broken", "site=x", "sort=colour", "page=0", "page=x", "text=%00"],
)
def test_a_wrong_question_is_told_in_words(lab: SmallLab, owner: Client, question: str) -> None:
    response = owner.get(f"{ADDRESS}?{question}")
    assert response.status_code == 400
    assert any(
        word in text_of(response)
        for word in ("Use one of", "Choose one", "count from 1", "Remove it")
    )


def _many(lab: SmallLab, number: int) -> None:
    entry = Entry("purchase", T0, embodied=Embodied(10 * KG), life_hours=YEAR)
    drafts = [Draft(Facts(f"GPU {i:03}", "gpu"), entry, deployed_us=T0) for i in range(number)]
    register_many(lab=lab.lab, drafts=drafts, by=None, now=NOW)


def test_it_is_paged_and_queries_do_not_grow(lab: SmallLab, owner: Client) -> None:
    _many(lab, 3)
    first = queries(owner, ADDRESS)
    _many(lab, 60)
    assert queries(owner, ADDRESS) == first
    page = text_of(owner.get(f"{ADDRESS}?page=2"))
    assert len(names(page)) == 13
    assert "51–63 of 63" in page
    assert amounts(page, "tfoot")[0] == 630 * KG, "totals are those of all pages"


def test_ticked_ones_change_owner_at_once_and_back(lab: SmallLab, owner: Client) -> None:
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    ids = [bought(lab, name=name).pk for name in "ab"]
    response = owner.post(
        f"{ADDRESS}?kind=gpu", {"item": ids, "action": "transfer", "owner": "vision", **DAY}
    )
    assert response.status_code == 302
    assert set(Asset.objects.values_list("owner", flat=True)) == {vision.pk}
    page = text_of(owner.get(response["Location"]))
    assert "2 assets changed owner" in page
    [entries] = re.findall(r'name="entries" value="([\d.]+)"', page)
    assert (
        owner.post(response["Location"], {"action": "undo", "entries": entries}).status_code == 302
    )
    assert set(Asset.objects.values_list("owner", flat=True)) == {None}


def test_ticked_ones_move_retire_or_get_labels(lab: SmallLab, owner: Client) -> None:
    server = bought(lab, name="gpu-01", kind="server")
    card = bought(lab)
    told = {"item": [card.pk], "action": "move", "parent": server.pk, "site": lab.site.pk, **DAY}
    assert owner.post(ADDRESS, told).status_code == 302
    card.refresh_from_db()
    assert (card.parent, card.site) == (server, lab.site)
    assert owner.post(ADDRESS, {"item": [card.pk], "action": "retire", **DAY}).status_code == 302
    card.refresh_from_db()
    assert card.state == "retired"
    response = owner.post(ADDRESS, {"item": [card.pk, server.pk], "action": "labels"})
    assert response["Location"] == f"/assets/labels/?id={server.pk}&id={card.pk}"


def test_all_or_none_and_it_says_which_could_not(lab: SmallLab, owner: Client) -> None:
    fine, gone = bought(lab, name="fine"), bought(lab, name="gone")
    record(asset=gone, entry=Entry("dispose", T0), by=None, now=NOW)
    before = LifecycleEvent.objects.count()
    response = owner.post(ADDRESS, {"item": [fine.pk, gone.pk], "action": "retire", **DAY})
    assert response.status_code == 409
    assert "gone: " in text_of(response)
    assert text_of(response).count(" checked>") == 2, "the selection stays"
    assert LifecycleEvent.objects.count() == before


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"action": "retire"}, "Select at least one asset"),
        ({"action": "explode", "item": ["+"]}, "Unknown action"),
        ({"action": "transfer", "item": ["+"]}, "Choose a project or the lab"),
        ({"action": "move", "item": ["+"]}, "Choose a site, a machine, or both"),
        ({"action": "move", "item": ["+"], "site": "99999"}, "Site</a>: Not available in this lab"),
        (
            {"action": "transfer", "item": ["+"], "owner": "nobody"},
            "Owner</a>: Not available in this lab",
        ),
        ({"action": "retire", "item": ["x"]}, "Select at least one asset"),
        ({"action": "labels", "item": ["1"] * 51}, "Select at most 50 assets"),
    ],
)
def test_what_cannot_be_done_is_told(
    lab: SmallLab, owner: Client, told: dict[str, object], words: str
) -> None:
    asset = bought(lab)
    lines = [str(asset.pk) if line == "+" else line for line in told.get("item", [])]  # type: ignore[attr-defined]
    response = owner.post(ADDRESS, {**DAY, **told, "item": lines})
    assert response.status_code == 400
    assert words in text_of(response)


def test_who_may(lab: SmallLab, viewer: Client, outsider: Client) -> None:
    asset = bought(lab)
    assert_needs_sign_in(ADDRESS)
    assert "A100 no. 1" in text_of(viewer.get(ADDRESS))
    assert 'name="item"' not in text_of(viewer.get(ADDRESS))
    assert viewer.post(ADDRESS, {"item": [asset.pk], "action": "retire", **DAY}).status_code == 403
    response = outsider.post(ADDRESS, {"item": [asset.pk], "action": "retire", **DAY})
    assert response.status_code == 409
    event = LifecycleEvent.objects.filter(asset=asset).latest("pk")
    outsider.post(ADDRESS, {"action": "undo", "entries": str(event.pk)})
    assert not LifecycleEvent.objects.filter(reverses=event).exists(), (
        "another lab's entry is not there"
    )
    assert_only(viewer, ADDRESS, "GET", "POST")


def test_names_are_text(lab: SmallLab, owner: Client) -> None:
    bought(lab, name=HOSTILE)
    assert HOSTILE not in text_of(owner.get(ADDRESS))


def test_another_labs_site_and_machine_are_unknown(lab: SmallLab, owner: Client) -> None:
    other = small_lab(name="Other")
    asset, theirs = bought(lab), bought(other, kind="server")
    for place in ({"site": other.site.pk}, {"parent": theirs.pk}):
        assert (
            owner.post(ADDRESS, {"item": [asset.pk], "action": "move", **place, **DAY}).status_code
            == 400
        )
