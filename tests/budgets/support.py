"""Use on chosen days of a small lab."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from apps.accounts.models import Project
from apps.budgets.choices import BudgetMetric, PeriodKind
from apps.budgets.models import Budget
from apps.budgets.services import BudgetInput, add_budget
from apps.core.intervals import datetime_to_us
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push

KWH = 3_600_000_000
_UNUSED_MJ = 7  # of each window of a project, charged to no project


def at(small: SmallLab, day: date, hour: int = 12) -> int:
    """Return an hour of a day of the lab, in µs."""
    zone = ZoneInfo(small.lab.time_zone)
    return datetime_to_us(datetime(day.year, day.month, day.day, hour, tzinfo=zone))


def use_days(
    small: SmallLab,
    days: Mapping[date, int],
    *,
    project: str = "demo",
    number: int = 1,
    hour: int = 12,
) -> UUID:
    """Upload a window of a run of ``project`` on each day, and a bit of idle energy."""
    Project.objects.get_or_create(
        lab=small.lab, slug=project, defaults={"name": project.title(), "created_us": T0}
    )
    run = uuid4()
    first = at(small, min(days), hour)
    put_run(
        lab=small.lab, uuid=run, by=small.owner, bound_node=None,
        facts=RunFacts(name="train.py", started_us=first, project=project),
    )  # fmt: skip
    windows = [
        W(
            f"gpu:GPU-{number}",
            energy_mj + _UNUSED_MJ,
            start_us=at(small, day, hour),
            end_us=at(small, day, hour) + MINUTE,
            seq=place,
            shares=((f"run:{run}", energy_mj), ("idle", _UNUSED_MJ)),
        )
        for place, (day, energy_mj) in enumerate(sorted(days.items()))
    ]
    push(small.node, windows)
    return run


def budget(small: SmallLab, amount: int = KWH, **changes: Any) -> Budget:
    """Add a budget of energy of the lab per month."""
    now = changes.pop("now", T0)
    values = {"metric": BudgetMetric.ENERGY, "period": PeriodKind.MONTH, **changes}
    return add_budget(
        lab=small.lab, values=BudgetInput(amount=amount, **values), by=small.owner, now=now
    )
