"""/costs/ and its CSV: hardware, electricity and cloud of a period, by currency."""

import csv
import io
import re

import pytest
from django.test import Client

from apps.assets.models import Asset
from apps.assets.services import Entry, record
from apps.billing.models import BilledMonth
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Placement
from apps.fleet.services import set_price, set_pue
from tests.assets.support import bought
from tests.billing.exports import aws_row, csv_bytes
from tests.billing.support import recorded
from tests.builders import T0, SmallLab
from tests.dashboard.support import (
    HOUR,
    PERIOD,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    queries,
    text_of,
    use,
)

pytestmark = pytest.mark.django_db
PAGE, CSV = "/costs/", "/costs/costs.csv"
OCTOBER = "from=2026-10-01&to=2026-11-01"
YEAR_HOURS = 8_760
USED_HOURS = 7 * 24 + 16  # from T0 to the end of PERIOD
EUR = 1_000_000


def asset(lab: SmallLab, name: str, kind: str, price: int | None, currency: str = "EUR") -> Asset:
    facts = {} if price is None else {"price_ucurrency": price, "currency": currency}
    return bought(lab, kg=None, name=name, kind=kind, **facts)


def price(lab: SmallLab, ucurrency: int = 310 * EUR, currency: str = "EUR", hour: int = 0) -> None:
    set_price(
        site=lab.site,
        ucurrency_per_kwh=ucurrency,
        currency=currency,
        from_us=hour * US_PER_HOUR,
        by=lab.owner,
        now=T0,
    )
    run_until_idle(worker="test")
    lab.lab.refresh_from_db()


def lines_of(page: str, currency: str) -> dict[str, tuple[str, int]]:
    """Return (state, cost) of the lines in a currency, and of the total."""
    section = page.partition(f'data-currency="{currency}"')[2].partition("</section>")[0]
    pattern = r'data-(?:line="(\w+)"|total) data-state="(\w+)" data-cost="(-?\d+)"'
    return {name or "total": (state, int(cost)) for name, state, cost in
            re.findall(pattern, section)}  # fmt: skip


def rows_of(client: Client, query: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(client.get(f"{CSV}?{query}")))))


def test_each_line_and_the_total_are_exact(lab: SmallLab, viewer: Client) -> None:
    use(lab)
    price(lab)
    set_pue(
        site=lab.site, pue_ppm=1_300_000, from_us=(HOUR - 1) * US_PER_HOUR, by=lab.owner, now=T0
    )
    run_until_idle(worker="test")
    asset(lab, "A100", "gpu", 9_999_999_999)
    asset(lab, "Switch", "network", 0)
    page = text_of(viewer.get(f"{PAGE}?{PERIOD}"))
    lines = lines_of(page, "EUR")
    assert lines["servers"] == ("known", 9_999_999_999 * USED_HOURS // (4 * YEAR_HOURS))
    assert lines["network"] == ("known", 0)
    assert lines["other_assets"] == ("none", 0)
    assert lines["cloud"] == ("none", 0)
    cost = figure(lab.lab, FigureQuery(COST, HOUR - 5, HOUR + 5)).cost_ucurrency
    it, cooling = lines["it_electricity"][1], lines["cooling_electricity"][1]
    assert it + cooling == cost > 0
    assert it == (20 * cost + 13) // 26
    total = lines.pop("total")
    assert total == ("known", sum(amount for _, amount in lines.values()))
    assert "data-incomplete" not in page
    assert assert_each_figure_explains_itself(viewer, page) == 1


def test_unknown_prices_are_counted_and_the_total_is_a_lower_bound(
    lab: SmallLab, viewer: Client
) -> None:
    use(lab)
    asset(lab, "A100", "gpu", 100 * EUR)
    unknown = asset(lab, "Laptop 7", "laptop", None)
    page = text_of(viewer.get(f"{PAGE}?{PERIOD}"))
    lines = lines_of(page, "EUR")
    assert lines["servers"][0] == "known"
    assert lines["other_assets"] == ("unknown", 0)
    assert lines["it_electricity"] == lines["cooling_electricity"] == ("unknown", 0)
    assert lines["total"] == ("at_least", lines["servers"][1])
    assert 'data-unpriced-assets="1"' in page
    assert f'href="/assets/{unknown.pk}/">Laptop 7' in page
    assert f'href="/sites/{lab.site.pk}/#price-card"' in page
    assert "≥" in page
    states = {row["item"]: (row["state"], row["cost_ucurrency"]) for row in rows_of(viewer, PERIOD)}
    assert states["Laptop 7"] == states["Energy without a price"] == ("unknown", "")


def test_a_part_of_the_energy_without_a_price(lab: SmallLab, viewer: Client) -> None:
    use(lab)
    use(lab, first=60)
    price(lab, hour=HOUR + 1)
    lines = lines_of(text_of(viewer.get(f"{PAGE}?{PERIOD}")), "EUR")
    assert lines["it_electricity"][0] == lines["total"][0] == "at_least"
    assert lines["it_electricity"][1] > 0


def test_another_currency_is_apart(lab: SmallLab, viewer: Client) -> None:
    use(lab)
    price(lab)
    asset(lab, "A100", "gpu", 100 * EUR)
    asset(lab, "Server", "server", 500 * EUR, "CHF")
    page = text_of(viewer.get(f"{PAGE}?{PERIOD}"))
    own, other = lines_of(page, "EUR"), lines_of(page, "CHF")
    assert own["servers"][1] == 100 * EUR * USED_HOURS // (4 * YEAR_HOURS)
    assert other["servers"][1] == 500 * EUR * USED_HOURS // (4 * YEAR_HOURS)
    assert set(other) == {"servers", "total"}
    assert other["total"] == other["servers"]


def test_the_balance_of_a_disposed_asset_is_in_its_period(lab: SmallLab, viewer: Client) -> None:
    gone = asset(lab, "A100", "gpu", 100 * EUR)
    entry = Entry("dispose", T0 + 24 * US_PER_HOUR, end_of_life="lost")
    record(asset=gone, entry=entry, by=lab.owner, now=T0 + 48 * US_PER_HOUR)
    page = text_of(viewer.get(f"{PAGE}?{PERIOD}"))
    assert lines_of(page, "EUR")["servers"] == ("known", 100 * EUR)
    assert "data-written-off" in page
    after = text_of(viewer.get(f"{PAGE}?from=2026-11-10&to=2026-11-12"))
    assert 'data-state="empty"' in after


def test_a_billed_month_counts_only_as_a_whole(lab: SmallLab, viewer: Client) -> None:
    lines = [aws_row(), aws_row(LineItemType="Credit", UnblendedCost="-5")]
    recorded(lab, csv_bytes([*lines, aws_row(LineItemType="Tax", UnblendedCost="9")]))
    page = text_of(viewer.get(f"{PAGE}?{OCTOBER}"))
    cloud = lines_of(page, "USD")
    assert cloud["cloud"] == cloud["total"] == ("known", 3_823_000 + 4_000_000)
    assert "data-unbilled" not in page
    assert "data-unpriced-energy" not in page
    partly = text_of(viewer.get(f"{PAGE}?from=2026-10-02&to=2026-11-01"))
    assert 'data-left-out="2026-10"' in partly
    assert f'href="/billing/months/{BilledMonth.objects.get().pk}/"' in partly
    assert lines_of(partly, "USD")["cloud"] == ("left_out", 0)
    assert lines_of(partly, "USD")["total"] == ("left_out", 0)
    states = {row["state"] for row in rows_of(viewer, "from=2026-10-02&to=2026-11-01")}
    assert states == {"left_out"}
    BilledMonth.objects.update(is_current=False)
    without = text_of(viewer.get(f"{PAGE}?{OCTOBER}"))
    assert "data-unbilled" in without


def test_energy_without_a_site_or_elsewhere(lab: SmallLab, viewer: Client) -> None:
    use(lab)
    Placement.objects.filter(node=lab.node).delete()
    page = text_of(viewer.get(f"{PAGE}?{PERIOD}"))
    assert f'href="/nodes/{lab.node.uuid}/"' in page
    Placement.objects.create(
        node=lab.node, site=lab.site, from_hour=0, recorded_us=T0, recorded_by=lab.owner
    )
    for change, expected in (
        ({"control": "cloud"}, "data-unbilled"),
        ({"control": "own", "kind": "declared"}, "data-elsewhere"),
    ):
        type(lab.site).objects.filter(pk=lab.site.pk).update(**change)
        page = text_of(viewer.get(f"{PAGE}?{PERIOD}"))
        assert expected in page
        assert "data-unpriced-energy" not in page
    assert lines_of(page, "")["it_electricity"] == ("none", 0)


def test_the_csv_sums_to_the_page(lab: SmallLab, viewer: Client) -> None:
    use(lab)
    price(lab)
    for i in range(3):
        asset(lab, f"=A100 {i}", "gpu", 7_777_777 + i)
    recorded(lab, csv_bytes([aws_row(CurrencyCode="EUR")]))
    query = "from=2026-10-01&to=2026-11-10"
    lines = lines_of(text_of(viewer.get(f"{PAGE}?{query}")), "EUR")
    sums: dict[str, int] = {}
    rows = rows_of(viewer, query)
    for row in rows:
        if row["state"] == "known":
            sums[row["line"]] = sums.get(row["line"], 0) + int(row["cost_ucurrency"])
    total = lines.pop("total")
    assert {key: amount for key, amount in sums.items() if amount} == {
        key: amount for key, (_, amount) in lines.items() if amount
    }
    assert total[1] == sum(sums.values())
    assert {row["item"][:2] for row in rows if row["asset_id"]} == {"'="}


def test_empty(lab: SmallLab, viewer: Client) -> None:
    page = text_of(viewer.get(f"{PAGE}?{PERIOD}"))
    assert 'data-state="empty"' in page
    for address in ("/assets/", "/sites/", "/billing/"):
        assert f'href="{address}"' in page
    assert rows_of(viewer, PERIOD) == []


def test_the_number_of_queries_is_fixed(lab: SmallLab, viewer: Client) -> None:
    use(lab)
    asset(lab, "A100", "gpu", 100 * EUR)
    asset(lab, "Old", "gpu", None)
    first = queries(viewer, f"{PAGE}?{PERIOD}"), queries(viewer, f"{CSV}?{PERIOD}")
    for i in range(5):
        asset(lab, f"A100 {i}", "gpu", 100 * EUR)
        asset(lab, f"Old {i}", "laptop", None)
    use(lab, first=5, runs=3)
    assert (queries(viewer, f"{PAGE}?{PERIOD}"), queries(viewer, f"{CSV}?{PERIOD}")) == first


@pytest.mark.parametrize("address", [PAGE, CSV])
class TestEndpoint:
    def test_success(self, address: str, lab: SmallLab, owner: Client) -> None:
        response = owner.get(address)
        assert response.status_code == 200

    def test_wrong_method(self, address: str, owner: Client) -> None:
        assert_only(owner, address, "GET")

    def test_another_lab(self, address: str, lab: SmallLab, outsider: Client) -> None:
        asset(lab, "Secret A100", "gpu", 100 * EUR)
        assert "Secret" not in text_of(outsider.get(f"{address}?{PERIOD}"))

    def test_read_only(self, address: str, viewer: Client) -> None:
        assert viewer.get(address).status_code == 200
        assert_needs_sign_in(address)

    @pytest.mark.parametrize("query", ["period=x", "from=2026-11-01", "from=x&to=y"])
    def test_invalid_input(self, address: str, query: str, viewer: Client) -> None:
        assert viewer.get(f"{address}?{query}").status_code == 400
