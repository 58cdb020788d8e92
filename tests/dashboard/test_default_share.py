"""The register shows how much rests on default figures, and which assets those are."""

import re

import pytest
from django.test import Client

from apps.assets.models import Asset
from apps.assets.selectors import FIGURES, Filters, matching
from apps.assets.services.csv_import import confirm, upload
from apps.assets.spreadsheets.rows import Options
from tests.builders import T0, SmallLab
from tests.dashboard.support import queries, text_of

LINES = (
    "name,kind,model,bought_on,embodied_kg\n"
    "a,gpu,RTX 3090,2024-03-01,\n"
    "b,server,Nobody's,2024-03-01,\n"
    "c,gpu,V100,2024-03-01,\n"
    "d,gpu,,2024-03-01,100\n"
    "e,other,,2024-03-01,\n"
)


@pytest.fixture
def registered(lab: SmallLab) -> SmallLab:
    row = upload(
        lab=lab.lab, file_name="x.csv", content=LINES.encode(), options=Options(), by=lab.owner,
        now=T0,
    )  # fmt: skip
    confirm(row=row, by=lab.owner, now=T0)
    return lab


def names(lab: SmallLab, figure: str) -> set[str]:
    return set(matching(lab.lab, Filters(figure=figure)).values_list("name", flat=True))


def test_every_asset_has_one_source_of_its_figure(registered: SmallLab) -> None:
    sources = {figure: names(registered, figure) for figure in FIGURES}
    assert sources == {"default": {"b", "c"}, "model": {"a"}, "stated": {"d"}, "unknown": {"e"}}


def test_the_share_is_shown_and_leads_to_its_assets(registered: SmallLab, owner: Client) -> None:
    page = text_of(owner.get("/assets/"))
    totals = dict(
        Asset.objects.filter(lab=registered.lab, embodied_total_ug__isnull=False).values_list(
            "name", "embodied_total_ug"
        )
    )
    share = round(100 * (totals["b"] + totals["c"]) / sum(totals.values()), 1)
    shown = re.search(r'data-default-percent="([\d.]+)"', page)
    assert shown is not None
    assert abs(float(shown[1]) - share) <= 0.5
    assert 'data-default-assets="2"' in page
    listed = text_of(owner.get("/assets/?figure=default"))
    assert ">b</a>" in listed
    assert ">a</a>" not in listed
    assert 'data-default-percent="100"' in listed
    assert "figure=default" in listed, "the CSV has the same filter"
    assert "data-default-percent" not in text_of(owner.get("/assets/?figure=unknown"))
    assert owner.get("/assets/?figure=nosuch").status_code == 400
    csv = text_of(owner.get("/assets.csv?figure=default"))
    assert len(csv.strip().splitlines()) == 3


def test_queries_do_not_grow_with_assets(registered: SmallLab, owner: Client) -> None:
    few = queries(owner, "/assets/")
    row = upload(
        lab=registered.lab, file_name="y.csv", content=LINES.encode(), options=Options(),
        by=registered.owner, now=T0,
    )  # fmt: skip
    confirm(row=row, by=registered.owner, now=T0)
    assert queries(owner, "/assets/") == few
