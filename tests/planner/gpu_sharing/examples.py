"""Jobs and cards of the tests, and strategies for them."""

from hypothesis import strategies as st

from apps.catalog.mig_profiles import MigCard, select_mig_card
from apps.catalog.selectors import mig_cards
from apps.planner.gpu_sharing.jobs import Range, SharedCard, SharedJob, Use

GB = 10**9
HOUR_US = 3_600_000_000


def mig_card(name: str = "NVIDIA A100-SXM4-80GB") -> MigCard:
    card = select_mig_card(mig_cards(), name)
    assert card is not None
    return card


def shared_card(name: str = "NVIDIA A100-SXM4-80GB", idle_mw: int = 50_000) -> SharedCard:
    card = mig_card(name)
    idle = Range(idle_mw * 8 // 10, idle_mw, idle_mw * 12 // 10)
    return SharedCard(memory_bytes=card.memory_bytes, idle_mw=idle, mig=card)


def use(mean_ppm: int, p95_ppm: int | None = None) -> Use:
    return Use(mean_ppm, mean_ppm if p95_ppm is None else p95_ppm)


def small_job(key: str, user: str = "ada", *, hours: int = 1) -> SharedJob:
    """A job of 4 GB that uses 8 to 10 % of the card, at 80 W."""
    return SharedJob(
        key=key,
        user=user,
        memory_bytes=4 * GB,
        duration_us=hours * HOUR_US,
        gpu_mj=hours * 80_000 * 3600,
        busy=Use(80_000, 100_000),
        bandwidth=Use(50_000, 60_000),
    )


def full_job(key: str, user: str = "ada") -> SharedJob:
    """A job of 4 GB that uses the whole card, at 400 W."""
    return SharedJob(
        key=key,
        user=user,
        memory_bytes=4 * GB,
        duration_us=HOUR_US,
        gpu_mj=400_000 * 3600,
        busy=use(1_000_000),
        bandwidth=use(600_000),
    )


@st.composite
def uses(draw: st.DrawFn) -> Use:
    low, high = sorted(draw(st.tuples(*[st.integers(0, 20)] * 2)))
    return Use(low * 50_000, high * 50_000)


@st.composite
def jobs_strategy(draw: st.DrawFn, *, most: int = 4, users: str = "ab") -> list[SharedJob]:
    count = draw(st.integers(0, most))
    return [
        SharedJob(
            key=str(index),
            user=draw(st.sampled_from(users)),
            memory_bytes=draw(st.none() | st.integers(0, 45).map(lambda gb: gb * GB)),
            duration_us=draw(st.integers(1, 6)) * HOUR_US + draw(st.integers(0, 3)),
            gpu_mj=draw(st.integers(1, 4_000_000_000)),
            busy=draw(st.none() | uses()),
            sm=draw(st.none() | uses()),
            bandwidth=draw(st.none() | uses()),
            is_distributed=draw(st.integers(0, 9)) == 0,
        )
        for index in range(count)
    ]


def card_names() -> st.SearchStrategy[str]:
    return st.sampled_from(
        ["NVIDIA A30", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"]
    )
