"""Explanation of a figure of use and hardware: its two parts."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.carbon.figures.combined import answer, split_query
from apps.carbon.figures.figure_query import TOGETHER, TOGETHER_INVENTORY, FigureQuery
from apps.dashboard.explain.citation import counted_share, factor_basis
from apps.dashboard.explain.pricing import pricing_of
from apps.dashboard.explain.subjects import filter_text, subject_of
from apps.dashboard.figures import Quantity, carbon_quantity, exact_quantity
from apps.dashboard.formatting import grouped
from apps.dashboard.periods import Period

_LEDGERS = {
    TOGETHER: "amortised over use (allocation)",
    TOGETHER_INVENTORY: "recorded at purchase (inventory)",
}


@dataclass(frozen=True)
class Component:
    """Use or hardware: its figure, the exact integer as text, and the number of rows of the sum."""

    name: str
    method: str
    quantity: Quantity
    value: str
    rows: int
    href: str


@dataclass(frozen=True)
class CombinedPage:
    """Content of the page."""

    query: FigureQuery
    period: Period
    headline: Quantity
    exact: Quantity
    subject: str
    subject_href: str
    filters: str
    components: list[Component]
    sum: str
    known_assets: int
    assets: int
    citation: str


def combined_page(
    *, lab: Lab, query: FigureQuery, period: Period, now: int, version: str
) -> CombinedPage:
    """Return the explanation of use and hardware together."""
    subject, href, _ = subject_of(lab, query)
    components = []
    part_specs = zip(
        split_query(query),
        ("Use", "Hardware"),
        (
            "energy × PUE × emission factor, location-based",
            f"embodied carbon, {_LEDGERS[query.metric]}",
        ),
        strict=True,
    )
    for component, name, method in part_specs:
        if component is not None:
            figure = answer(lab, component, now)
            part_quantity = carbon_quantity(figure)
            components.append(
                Component(
                    name,
                    method,
                    part_quantity,
                    grouped(figure.value),
                    figure.entries,
                    part_quantity.href,
                )
            )
    whole = answer(lab, query, now)
    headline = carbon_quantity(whole)
    filters = filter_text(query)
    parts = " + ".join(
        f"{component.quantity.text} {component.name.lower()}" for component in components
    )
    return CombinedPage(
        query=query,
        period=period,
        headline=headline,
        exact=exact_quantity(query, headline.value),
        subject=subject,
        subject_href=href,
        filters=filters,
        components=components,
        sum=grouped(headline.value),
        known_assets=whole.coverage.known if whole.coverage else 0,
        assets=whole.coverage.assets if whole.coverage else 0,
        citation=f"{subject}{f' ({filters})' if filters else ''}, {period.label}: {headline.text} "
        f"({'; '.join([parts, *_basis_of_use(lab, split_query(query)[0])])}). Calculated with "
        f"LabCarbon {version}. Exact value: {headline.exact}.",
    )


def _basis_of_use(lab: Lab, query: FigureQuery | None) -> list[str]:
    """Return factors, range and measured share of the part from use. At most four queries."""
    if query is None:
        return []
    pricing = pricing_of(lab, query)
    basis = factor_basis(query, pricing)
    if pricing.range_text:
        basis.append(f"P5–P95 of use {pricing.range_text}")
    if share := counted_share(pricing).removeprefix(", "):
        basis.append(share)
    return basis
