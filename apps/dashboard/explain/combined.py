"""Where a figure of use and hardware comes from: two figures, each with its own way back."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.carbon.figures.combined import answer, split_query
from apps.carbon.figures.query import TOGETHER, TOGETHER_INVENTORY, FigureQuery
from apps.dashboard.explain.subjects import narrowed_words, subject_of
from apps.dashboard.figures import Quantity, carbon_quantity, exact_quantity
from apps.dashboard.formatting import grouped
from apps.dashboard.periods import Period

_LEDGERS = {TOGETHER: "spread over use (allocation)", TOGETHER_INVENTORY: "booked when bought (inventory)"}


@dataclass(frozen=True)
class Component:
    """Use or hardware: its figure, the stored integer as text, how many rows it is the sum of."""

    name: str
    how: str
    quantity: Quantity
    value: str
    rows: int
    href: str


@dataclass(frozen=True)
class CombinedPage:
    """All the explain page of use and hardware shows."""

    query: FigureQuery
    period: Period
    headline: Quantity
    exact: Quantity
    subject: str
    subject_href: str
    narrowed: str
    components: list[Component]
    sum: str
    known: int
    assets: int
    citation: str


def combined_page(*, lab: Lab, query: FigureQuery, period: Period, now: int, version: str) -> CombinedPage:
    """Return the explanation of use and hardware together."""
    subject, href, _ = subject_of(lab, query)
    components = []
    part_specs = zip(
        split_query(query),
        ("Use", "Hardware"),
        ("energy × PUE × emission factor, by location", f"embodied carbon, {_LEDGERS[query.metric]}"),
        strict=True,
    )
    for component, name, how in part_specs:
        if component is not None:
            figure = answer(lab, component, now)
            part_quantity = carbon_quantity(figure)
            components.append(Component(name, how, part_quantity, grouped(figure.value), figure.entries, part_quantity.href))
    whole = answer(lab, query, now)
    headline = carbon_quantity(whole)
    narrowed = narrowed_words(query)
    parts = " + ".join(f"{component.quantity.text} {component.name.lower()}" for component in components)
    return CombinedPage(
        query=query,
        period=period,
        headline=headline,
        exact=exact_quantity(query, headline.value),
        subject=subject,
        subject_href=href,
        narrowed=narrowed,
        components=components,
        sum=grouped(headline.value),
        known=whole.coverage.known if whole.coverage else 0,
        assets=whole.coverage.assets if whole.coverage else 0,
        citation=f"{subject}{f' ({narrowed})' if narrowed else ''}, {period.label}: {headline.text} ({parts}; "
        f"location-based, {query.basis} basis). Measured with LabCarbon {version}. Exact value: {headline.exact}.",
    )
