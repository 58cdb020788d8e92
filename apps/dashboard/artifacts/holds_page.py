"""The page of holds: active ones, ended ones, and the subject of a new hold."""

from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse

from apps.accounts.models import Lab, Project, User
from apps.artifacts.holds import active_holds
from apps.artifacts.models import Artifact, Hold
from apps.artifacts.services.holds import Holdable
from apps.core.units import END_HOUR, hour_of

MAX_ENDED = 100


@dataclass(frozen=True)
class HoldRow:
    """A hold with its subject, and whether the visitor can lift it."""

    hold: Hold
    name: str
    kind: str
    href: str
    may_lift: bool


@dataclass(frozen=True)
class HoldSubject:
    """The subject of a hold, with the form field and value that identify it."""

    name: str
    kind: str
    field: str
    value: str
    href: str


@dataclass(frozen=True)
class HoldsPage:
    """All holds. ``ended``: the latest MAX_ENDED ended ones. ``subject`` None: no subject
    selected.
    """

    rows: list[HoldRow]
    ended: list[HoldRow]
    is_cut: bool
    subject: HoldSubject | None


def holds_page(
    *, lab: Lab, on: Holdable | None, user: User, can_write: bool, can_manage: bool, now: int
) -> HoldsPage:
    """Return the page. Three queries."""

    def row(hold: Hold, *, is_over: bool = False) -> HoldRow:
        subject = hold_subject(hold.artifact or hold.project or hold.run)
        may = not is_over and (can_manage or (can_write and hold.by_id == user.pk))
        return HoldRow(hold, subject.name, subject.kind, subject.href, may)

    listed = sorted(
        active_holds(lab, now),
        key=lambda hold: (END_HOUR if hold.until_hour is None else hold.until_hour, hold.pk),
    )
    ended = Hold.objects.filter(
        Q(lifted_us__isnull=False) | Q(until_hour__lte=hour_of(now)), lab=lab
    )
    over = list(
        ended.select_related("artifact", "project", "run", "by", "lifted_by").order_by(
            "-placed_us", "-pk"
        )[: MAX_ENDED + 1]
    )
    return HoldsPage(
        [row(hold) for hold in listed],
        [row(hold, is_over=True) for hold in over[:MAX_ENDED]],
        len(over) > MAX_ENDED,
        hold_subject(on) if on is not None else None,
    )


def hold_subject(on: Holdable | None) -> HoldSubject:
    """Return the subject of a hold with name and address."""
    assert on is not None, "every hold has a subject"
    if isinstance(on, Artifact):
        return HoldSubject(
            on.name, "artifact", "artifact", on.digest, reverse("artifact", args=[on.digest])
        )
    if isinstance(on, Project):
        return HoldSubject(
            on.name,
            "all artifacts of a project",
            "project",
            on.slug,
            reverse("project", args=[on.slug]),
        )
    return HoldSubject(
        on.name,
        "all inputs and outputs of a run",
        "run",
        str(on.uuid),
        reverse("run", args=[on.uuid]),
    )
