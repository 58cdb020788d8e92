"""Shares of a purchase price: they sum exactly to the price, and are those of an oracle that
shares no code. The parts of an electricity cost sum exactly to it.
"""

from fractions import Fraction
from itertools import pairwise
from math import floor

from hypothesis import example, given
from hypothesis import strategies as st

from apps.assets.amortisation import Metered, Use
from apps.assets.choices import STARTING, EventKind
from apps.assets.lifecycle import Event
from apps.assets.price_amortisation import price_share
from apps.core.units import END_HOUR, it_part
from tests.properties.lives_oracle import Books, Life, Step
from tests.properties.test_embodied import hours, lives, metered_times, timelines

prices = st.integers(min_value=1, max_value=10**13)
KINDS = ("transfer", "move", "repair", "life_change", "repurpose", "upgrade", "retire")


def cost(
    events: list[Event], price: int, start: int, end: int, uses: list[Use], meters: tuple[Metered]
) -> int:
    share = price_share(events, price, start, end, uses, meters)
    return share.cost_ucurrency or 0 if share else 0


@given(lives(), prices, timelines(), metered_times, st.sets(hours, max_size=6))
def test_the_shares_of_all_periods_sum_to_the_price(
    life: list[Event],
    price: int,
    uses: list[Use],
    meters: tuple[Metered],
    cuts: set[int],
) -> None:
    edges = sorted({0, *cuts, END_HOUR})
    shares = [cost(life, price, low, high, uses, meters) for low, high in pairwise(edges)]
    ends = any(event.kind in (*STARTING, EventKind.DISPOSE) for event in life)
    assert sum(shares) == (price if ends else 0)
    assert all(share >= 0 for share in shares)


@st.composite
def consistent_steps(draw: st.DrawFn) -> list[Step]:
    """A purchase, its use, other events in order of time, and perhaps the disposal."""
    start = draw(st.integers(0, 50))
    steps = [
        Step("purchase", start, draw(prices), life=draw(st.integers(1, 300))),
        Step("deploy", start + draw(st.integers(0, 50))),
    ]
    for _ in range(draw(st.integers(0, 6))):
        kind, hour = draw(st.sampled_from(KINDS)), steps[-1].hour + draw(st.integers(1, 90))
        has_end = kind == "life_change" or (kind == "repurpose" and draw(st.booleans()))
        end = hour + draw(st.integers(1, 200)) if has_end else None
        steps.append(Step(kind, hour, end=end))
    if draw(st.booleans()):
        steps.append(Step("dispose", steps[-1].hour + draw(st.integers(1, 200))))
    return steps


@given(consistent_steps(), st.lists(hours, min_size=2, max_size=2, unique=True))
def test_a_share_is_that_of_the_oracle(steps: list[Step], edges: list[int]) -> None:
    start, end = sorted(edges)
    price = steps[0].carbon
    assert price
    events = [
        Event(
            i,
            step.hour,
            step.kind,
            total_ug=10**9 + i,  # embodied carbon has no effect on the price
            includes_end_of_life=False,
            life_hours=step.life or None,
            life_end_hour=step.end,
        )
        for i, step in enumerate(steps)
    ]
    books = Books(Life(steps, []), rounding=True)
    expected = books.charged(start, end)
    share = price_share(events, price, start, end)
    written_off = sum(part for (_, reason), part in expected.items() if reason == "written_off")
    found = (share.cost_ucurrency, share.written_off_ucurrency) if share else (0, 0)
    assert found == (sum(expected.values()), written_off)


def test_unknown_zero_and_none_are_different() -> None:
    life = [
        Event(1, 10, EventKind.PURCHASE, life_hours=100),
        Event(2, 20, EventKind.DEPLOY),
    ]
    for price in (None, 0):
        share = price_share(life, price, 30, 40)
        assert share is not None
        assert share.cost_ucurrency == price
        assert price_share(life, price, 0, 20) is None
        assert price_share(life, price, 120, 130) is None
    assert price_share(life, 1_000, 30, 40) is not None


@given(st.integers(-(10**15), 10**15), st.integers(1_000_000, 5_000_000))
@example(3, 2_000_000)
@example(-3, 2_000_000)
def test_the_part_of_it_equipment_is_half_up(amount: int, pue_ppm: int) -> None:
    exact = Fraction(amount * 1_000_000, pue_ppm)
    assert it_part(amount, pue_ppm) == floor(exact + Fraction(1, 2))
    assert abs(it_part(amount, pue_ppm)) <= abs(amount)
