"""Citation of an amount of use."""

from collections.abc import Iterable, Sequence

from apps.carbon.coverage import DeviceTime, time_shares
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.dashboard.explain.cost import CostView
from apps.dashboard.explain.pricing import Pricing, factor_text
from apps.dashboard.explain.subjects import filter_text
from apps.dashboard.figures import Quantity, quantity
from apps.dashboard.formatting import percent, pue
from apps.dashboard.periods import Period


def citation(
    subject: str,
    query: FigureQuery,
    period: Period,
    pricing: Pricing,
    cost: CostView | None,
    headline: Quantity,
    coverage: str,
    version: str,
    more_amounts: Sequence[str] = (),
    addition: str = "",
) -> str:
    """Return the sentence that cites an amount: subject, amounts, factors and prices with their
    sources, range, certainty. ``coverage``: percent of device time, '' to leave it out.
    ``addition``: an amount with another basis, at the end.
    """
    whole = pricing.whole
    filters = f" ({filter_text(query)})" if filter_text(query) else ""
    amounts = [quantity(query.replace(metric="energy_mj"), whole).text]
    if query.metric != "energy_mj":
        name = {"emission_ug": "emissions", COST: "cost"}.get(query.metric, "facility energy")
        amounts.append(f"{name} unknown" if headline.missing else headline.text)
    amounts += more_amounts
    basis = factor_basis(query, pricing) if query.metric == "emission_ug" else []
    basis += cost.citation if cost else []
    if pricing.range_text:
        basis.append(f"P5–P95 {pricing.range_text}")
    running = " (its last hour was not over)" if period.is_running else ""
    words = f"{subject}{filters}, {period.label}{running}: {', '.join(amounts)}" + (
        f" ({'; '.join(basis)})" if basis else ""
    )
    words += counted_share(pricing)
    if coverage:
        words += f", coverage {coverage} of device time"
    if addition:
        words += f", in addition {addition}"
    exact = "" if headline.missing else f" Exact value: {headline.exact}."
    return f"{words}. Measured with LabCarbon {version}.{exact}"


def factor_basis(query: FigureQuery, pricing: Pricing) -> list[str]:
    """Return the basis of emissions from use: method, each factor with its source, and PUE."""
    factors = [f"{factor_text(factor)}, {factor.source}" for factor in pricing.factors]
    return [f"location-based, {query.basis} basis", *factors, *_pue_basis(pricing)]


def _pue_basis(pricing: Pricing) -> list[str]:
    """Return the PUE of the sites, from the lowest to the highest."""
    values = [part.pue_ppm for part in pricing.parts]
    known = sorted({value for value in values if value is not None})
    if not known:
        return ["PUE unknown"] if values else []
    text = "–".join(dict.fromkeys((pue(known[0]), pue(known[-1]))))
    return [f"PUE {text}{', partly unknown' if None in values else ''}"]


def known_share(times: Iterable[DeviceTime]) -> str:
    """Return the share of the expected device time with data, '' if none is expected."""
    sums = time_shares(times)
    known_us = sums.measured_us + sums.estimated_us
    return f"{percent(known_us, sums.expected_us)} %" if sums.expected_us else ""


def counted_share(pricing: Pricing) -> str:
    """Return the share of the energy that counters measured, after a comma; '' without energy."""
    energy_mj = pricing.whole.energy_mj
    counted = pricing.by_quality.get("COUNTER")
    if not energy_mj:
        return ""
    share = percent(counted.energy_mj if counted else 0, energy_mj)
    return f", {share} % of the energy by hardware counters"
