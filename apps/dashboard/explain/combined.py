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
class TogetherPage:
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


def together_page(*, lab: Lab, query: FigureQuery, period: Period, now: int, version: str) -> TogetherPage:
    """Return the explanation of use and hardware together."""
    subject, href, _ = subject_of(lab, query)
    listed = []
    asked = zip(
        split_query(query),
        ("Use", "Hardware"),
        ("energy × PUE × emission factor, by location", f"embodied carbon, {_LEDGERS[query.metric]}"),
        strict=True,
    )
    for half, name, how in asked:
        if half is not None:
            found = answer(lab, half, now)
            told = carbon_quantity(found)
            listed.append(Component(name, how, told, grouped(found.value), found.entries, told.href))
    whole = answer(lab, query, now)
    headline = carbon_quantity(whole)
    narrowed = narrowed_words(query)
    parts = " + ".join(f"{half.quantity.text} {half.name.lower()}" for half in listed)
    return TogetherPage(
        query=query,
        period=period,
        headline=headline,
        exact=exact_quantity(query, headline.value),
        subject=subject,
        subject_href=href,
        narrowed=narrowed,
        components=listed,
        sum=grouped(headline.value),
        known=whole.coverage.known if whole.coverage else 0,
        assets=whole.coverage.assets if whole.coverage else 0,
        citation=f"{subject}{f' ({narrowed})' if narrowed else ''}, {period.label}: {headline.text} ({parts}; "
        f"location-based, {query.basis} basis). Measured with LabCarbon {version}. Exact value: {headline.exact}.",
    )
