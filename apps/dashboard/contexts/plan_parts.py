"""Parts of a plan's page: what keeping and making again cost, who was told."""

from dataclasses import dataclass

from django.conf import settings

from apps.artifacts.choices import MailState, PlanState
from apps.artifacts.cleanup.notifications import Absent, ToTell, absent, by_owner, untold
from apps.artifacts.models import Notice, Plan
from apps.dashboard.figures import WouldBe, estimated


@dataclass(frozen=True)
class Cost:
    """Energy and what it emits, location-based. None: not known. ``is_factorless``: some of it has no factor."""

    energy: WouldBe | None
    emission: WouldBe | None
    is_factorless: bool


@dataclass(frozen=True)
class ToldPart:
    """Who was told of a plan; ``missing``: who never was; ``absent``: lines whose owner is not in the lab. ``mails``:
    whether mails are sent now; ``unmailed``: how many were told while none were."""

    notices: list[Notice]
    missing: list[ToTell]
    absent: Absent
    mails: bool
    mailed: int
    unmailed: int


def cost(energy_mj: int | None, emission_ug: int | None, *, at_least: bool = False, factorless: bool = False) -> Cost:
    """Return energy and emissions as a page shows them. ``at_least``: some energy is in neither sum."""
    return Cost(
        None if energy_mj is None else estimated(energy_mj, at_least=at_least),
        None if emission_ug is None else estimated(emission_ug, "emission_ug", at_least=at_least or factorless),
        factorless or (energy_mj is not None and emission_ug is None),
    )


def told_part(plan: Plan) -> ToldPart:
    """Return who was told. A draft's are those who will be."""
    notices = list(plan.notices.order_by("name", "pk"))
    is_open = plan.state in (PlanState.DRAFT, PlanState.TOLD)
    mailed = sum(notice.mail == MailState.SENT for notice in notices)
    off = sum(notice.mail == MailState.OFF for notice in notices)
    lines = by_owner(plan) if is_open else {}
    missing = untold(plan, lines) if is_open else []
    return ToldPart(notices, missing, absent(plan, lines) if is_open else Absent([], 0, 0), settings.MAIL_ON, mailed, off)
