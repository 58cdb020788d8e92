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
    basis = [f"location-based, {query.basis} basis"] if query.metric == "emission_ug" else []
    if query.metric == "emission_ug":
        basis += [
            f"{factor.zone_name} {factor.year}, {grams_per_kwh(factor.ug_per_kwh)} g/kWh, "
            f"{factor.source}"
            for factor in pricing.factors
        ]
    basis += cost.citation if cost else []
    if pricing.range_text:
        basis.append(f"P5–P95 {pricing.range_text}")
    words = f"{subject}{filters}, {period.label}: {', '.join(amounts)}" + (
        f" ({'; '.join(basis)})" if basis else ""
    )
    counted = pricing.by_quality.get("COUNTER")
    if whole.energy_mj:
        words += (
            f", {percent(counted.energy_mj if counted else 0, whole.energy_mj)} % of the energy "
            "by hardware counters"
        )
    if coverage:
        words += f", coverage {coverage} of device time"
    exact = "" if headline.missing else f" Exact value: {headline.exact}."
    return f"{words}. Measured with LabCarbon {version}.{exact}"
