"""Reads of who is to be told of a plan, who was, and what goes soon of a person."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Count, Q

from apps.accounts.choices import Role
from apps.accounts.models import Lab, Membership, User
from apps.artifacts.choices import PlanState
from apps.artifacts.models import Notice, Plan, PlanLine


@dataclass(frozen=True)
class ToTell:
    """A person to be told. ``own``: ticked lines of theirs; ``others``: ticked lines whose owner is not in the lab, of which
    they are told in the owner's place."""

    user: User
    own: int
    others: int


@dataclass(frozen=True)
class Absent:
    """Ticked lines whose owner is not in the lab: by the names of those who left, and of nobody known."""

    names: list[str]
    lines: int
    unknown: int


@dataclass(frozen=True)
class Soon:
    """What goes of a person by one plan: ``own`` lines of theirs, ``others`` in the place of owners who are not here."""

    plan: Plan
    own: int
    others: int


def by_owner(plan: Plan) -> dict[int | None, int]:
    """Return {owner's number, None where nobody is known: ticked lines that were not moved}."""
    rows = plan.lines.filter(chosen=True, outcome="").values("artifact__owner").annotate(many=Count("pk"))
    return {row["artifact__owner"]: row["many"] for row in rows.order_by("artifact__owner")}


def to_tell(plan: Plan, own: Mapping[int | None, int]) -> list[ToTell]:
    """Return who is to be told of a plan: the owners of its ticked lines (``own``, from :func:`by_owner`) who are in the
    lab; for lines of others its PIs, or its admins where it has none. By name."""
    here = _here(plan.lab)
    others = sum(many for owner, many in own.items() if owner not in here)
    instead = _stand_ins(here.values()) if others else set()
    found = [
        ToTell(each.user, own.get(user, 0), others if user in instead else 0)
        for user, each in here.items()
        if user in own or user in instead
    ]
    return sorted(found, key=lambda each: (each.user.get_username().casefold(), each.user.pk))


def untold(plan: Plan, own: Mapping[int | None, int] | None = None) -> list[ToTell]:
    """Return who is to be told of a plan and was not: who came since, or stands in where nobody does any more. ``own``: what
    :func:`by_owner` said, where that was asked already."""
    told = {notice.user_id: notice for notice in plan.notices.all()}
    wanted = to_tell(plan, by_owner(plan) if own is None else own)
    is_covered = any(each.others and each.user.pk in told and told[each.user.pk].others for each in wanted)
    return [
        each for each in wanted if (each.own and each.user.pk not in told) or (each.others and not is_covered)
    ]  # fmt: skip


def absent(plan: Plan, own: Mapping[int | None, int]) -> Absent:
    """Return the ticked lines of a plan (``own``, from :func:`by_owner`) whose owner is not in the lab."""
    here = _here(plan.lab)
    gone = {owner: many for owner, many in own.items() if owner not in here}
    names = User.objects.filter(pk__in=[owner for owner in gone if owner is not None]).order_by("username")
    return Absent(list(names.values_list("username", flat=True)), sum(gone.values()), gone.get(None, 0))


def lines_told(notice: Notice) -> Q:
    """Return which lines of its plan a notice is about: the person's own, and those of owners who are not in the lab."""
    own = Q(artifact__owner=notice.user_id)
    return own | lines_of_nobody_here(notice.plan.lab) if notice.others else own


def lines_of_nobody_here(lab: Lab) -> Q:
    """Return which lines are of an artifact whose owner is not known, or not in the lab."""
    here = Membership.objects.filter(lab=lab, user__is_active=True).values("user")
    return Q(artifact__owner=None) | ~Q(artifact__owner__in=here)


def going_soon(lab: Lab, user: User) -> list[Soon]:
    """Return the open plans that a person was told of in which something they were told of is ticked still and was not
    moved. One query where they were told of none, and that a small one: every page asks; else two, and one for each."""
    states = (PlanState.TOLD, PlanState.APPROVED)
    notices = Notice.objects.filter(user=user, plan__lab=lab, plan__state__in=states)
    found = list[Soon]()
    if not notices.exists():
        return found
    for notice in notices.select_related("plan__node", "plan__lab").order_by("plan__grace_until_us", "pk"):
        lines = PlanLine.objects.filter(lines_told(notice), plan=notice.plan, chosen=True, outcome="")
        count = lines.aggregate(all=Count("pk"), own=Count("pk", filter=Q(artifact__owner=user)))
        if count["all"]:
            found.append(Soon(notice.plan, count["own"], count["all"] - count["own"]))
    return found


def _here(lab: Lab) -> dict[int, Membership]:
    found = Membership.objects.filter(lab=lab, user__is_active=True).select_related("user").order_by("pk")
    return {each.user_id: each for each in found}


def _stand_ins(here: Iterable[Membership]) -> set[int]:
    listed = list(here)
    return {each.user_id for each in listed if each.role == Role.PI} or {
        each.user_id for each in listed if each.role == Role.ADMIN
    }
