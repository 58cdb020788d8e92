"""A lab with one of everything that a statement contains."""

import uuid
from datetime import date
from typing import Any

from apps.accounts.models import Lab
from apps.carbon.figures.scopes import OUTSIDE
from apps.carbon.hourly_factors import record_hours
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site, register_node
from apps.reports.models import Statement
from apps.reports.rows import LINE, Row
from apps.reports.selectors import frozen_rows
from apps.reports.services import ClosedPeriod, close_period
from apps.runs.services.runs import RunFacts, put_run
from tests.assets.support import bought
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab

RUN = uuid.UUID("018f6f0e-0000-4000-8000-00000000beef")
HOUR = T0 // US_PER_HOUR
NOVEMBER = (date(2026, 11, 1), date(2026, 11, 30))
DECEMBER_US = T0 + 30 * 24 * US_PER_HOUR  # 2 December


def use(small: SmallLab, count: int = 90, *, at_us: int = T0, seq: int = 0, **more: Any) -> None:
    """Upload windows of a minute with a run, idle energy and a process without a project."""
    windows = [
        W(
            "gpu:GPU-0000-1111",
            901,
            start_us=at_us + i * MINUTE,
            end_us=at_us + (i + 1) * MINUTE,
            seq=seq + i,
            shares=((f"run:{RUN}", 600), ("idle", 300), ("proc:ada/x", 1)),
        )
        for i in range(count)
    ]
    push(more.pop("node", small.node), windows, **more)


def full_lab() -> SmallLab:
    """Create a lab with own, outside and unpriced nodes, hourly factors and hardware."""
    small = small_lab()
    put_run(
        lab=small.lab, uuid=RUN, by=small.owner, bound_node=None,
        facts=RunFacts(name="train.py", started_us=T0, project="demo"),
    )  # fmt: skip
    use(small)
    outside = create_site(
        lab=small.lab, name="Cluster", kind=SiteKind.MACHINE_ROOM, zone="FR", pue_ppm=1_234_567
    )
    outside.control = OUTSIDE
    outside.save()
    unpriced = create_site(lab=small.lab, name="Attic", kind=SiteKind.WORKSTATION, zone="")
    for number, site in enumerate((outside, unpriced)):
        node = register_node(
            lab=small.lab, uuid=uuid.uuid4(), hostname=f"n{number}", facts={}, site=site, now=T0
        )
        run_until_idle(worker="test")
        push(node, [W(f"gpu:GPU-{number}", 7_777_777 + number)])
    bought(small, name="A100", kg=150, now=DECEMBER_US)
    bought(small, name="Unknown", kg=None, now=DECEMBER_US)
    provisional(small.lab, {0: 321})
    return small


def provisional(lab: Lab, hours: dict[int, int], *, is_actual: bool = False) -> None:
    """Record g/kWh of Germany by hour after T0."""
    record_hours(
        lab=lab, zone="DE", basis=lab.basis, is_actual=is_actual, source="Meter", licence="CC0",
        hours={HOUR + offset: g * 1_000_000 for offset, g in hours.items()}, now=DECEMBER_US,
    )  # fmt: skip
    run_until_idle(worker="test")


def close(small: SmallLab, now: int = DECEMBER_US) -> ClosedPeriod:
    """Close November."""
    first_day, last_day = NOVEMBER
    return close_period(
        lab=small.lab, first_day=first_day, last_day=last_day, by=small.owner, now=now
    )


def lines(statement: Statement) -> dict[Row, int]:
    """Return {key: integer} of the lines of a statement."""
    return {row.key: row.number for row in frozen_rows(statement) if row.kind == LINE}
