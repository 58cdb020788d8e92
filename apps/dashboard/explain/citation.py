"""Citation of an amount of use."""

from apps.carbon.figures.figure_query import FigureQuery
from apps.dashboard.explain.cost import CostView
from apps.dashboard.explain.pricing import Pricing
from apps.dashboard.explain.subjects import filter_text
from apps.dashboard.figures import Quantity, quantity
from apps.dashboard.formatting import grams_per_kwh, percent
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
) -> str:
    """Return the sentence that cites an amount: subject, amounts, factors and prices with their
    sources, range, certainty. ``coverage``: percent of device time, '' to leave it out.
    """
    whole = pricing.whole
    filters = f" ({filter_text(query)})" if filter_text(query) else ""
    amounts = [quantity(query.replace(metric="energy_mj"), whole).text]
    if query.metric != "energy_mj":
        amounts.append(headline.text)
    basis = factor_basis(query, pricing) if query.metric == "emission_ug" else []
    basis += cost.citation if cost else []
    if pricing.range_text:
        basis.append(f"P5–P95 {pricing.range_text}")
    words = f"{subject}{filters}, {period.label}: {', '.join(amounts)}" + (
        f" ({'; '.join(basis)})" if basis else ""
    )
    words += counted_share(pricing)
    if coverage:
        words += f", coverage {coverage} of device time"
    exact = "" if headline.missing else f" Exact value: {headline.exact}."
    return f"{words}. Measured with LabCarbon {version}.{exact}"


def factor_basis(query: FigureQuery, pricing: Pricing) -> list[str]:
    """Return the basis of emissions from use: method, and each factor with its source."""
    return [f"location-based, {query.basis} basis"] + [
        f"{factor.zone_name} {factor.year}, {grams_per_kwh(factor.ug_per_kwh)} g/kWh, "
        f"{factor.source}"
        for factor in pricing.factors
    ]


def counted_share(pricing: Pricing) -> str:
    """Return the share of the energy that counters measured, after a comma; '' without energy."""
    energy_mj = pricing.whole.energy_mj
    counted = pricing.by_quality.get("COUNTER")
    if not energy_mj:
        return ""
    share = percent(counted.energy_mj if counted else 0, energy_mj)
    return f", {share} % of the energy by hardware counters"
