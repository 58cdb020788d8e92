"""Lives of assets by chance, and a clock for what is settled."""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import strategies as st

from apps.accounts.models import Project
from apps.assets import amortisation
from apps.assets.choices import OPENING, EventKind
from apps.assets.lifecycle import Event
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services import Embodied, Entry, record, reverse
from apps.core.errors import Conflict, InvalidInput
from apps.core.units import US_PER_HOUR
from tests.assets.support import H0, YEAR
from tests.builders import T0

NOW = T0 + 5 * YEAR * US_PER_HOUR
END = H0 + 5 * YEAR

kinds = st.sampled_from(
    [kind.value for kind in EventKind if kind not in (*OPENING, EventKind.REVERSAL)]
)
steps = st.lists(
    st.tuples(
        st.one_of(kinds, st.just("undo")),
        st.integers(0, 5 * YEAR - 1),
        st.integers(0, 10**12),
        st.integers(0, 2),
        st.integers(1, 6 * YEAR),
    ),
    max_size=9,
)


def _entry(kind: str, hour: int, amount: int, project: Project | None, end: int) -> Entry:
    takes: dict[str, dict[str, Any]] = {
        "transfer": {"project": project},
        "lend": {"project": project, "counterpart": "" if project else "Ministry"},
        "repair": {"embodied": Embodied(amount, amount // 2, amount * 2)},
        "dispose": {"embodied": Embodied(amount)},
        "life_change": {"life_end_us": T0 + end * US_PER_HOUR},
        "repurpose": {"life_end_us": T0 + end * US_PER_HOUR},
    }
    return Entry(kind, T0 + hour * US_PER_HOUR, **takes.get(kind, {}))


class Clock:
    """What time it is for what is settled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hour = H0
        monkeypatch.setattr(
            "apps.assets.services.settled_totals.now_us", lambda: self.hour * US_PER_HOUR
        )


def summarise_lifecycle(
    asset: Asset,
    told: list[tuple[str, int, int, int, int]],
    owners: list[Project | None],
    clock: Clock,
) -> None:
    for kind, hour, amount, who, end in told:
        clock.hour = max(clock.hour, H0 + end)
        try:
            with transaction.atomic():
                if kind == "undo":  # of anything but how it was bought, reversals among them
                    rows = (
                        LifecycleEvent.objects.filter(asset=asset)
                        .exclude(kind__in=OPENING)
                        .order_by("pk")
                    )
                    if rows:
                        reverse(event=rows[hour % len(rows)], by=None, now=NOW)
                else:
                    record(
                        asset=asset,
                        entry=_entry(kind, hour, amount, owners[who], end),
                        by=None,
                        now=NOW,
                    )
        except (Conflict, InvalidInput):
            continue


def planned_end(events: list[Event]) -> int | None:
    life = amortisation._Life()
    for event in events:
        amortisation._applied(life, event)
    return life.end_hour if life.is_started else None
