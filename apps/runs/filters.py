"""Filters of GET runs/, and pagination by cursor."""

from typing import Any
from uuid import UUID

from django.db.models import BigIntegerField, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.http import QueryDict
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.selectors import may_see_person, role_in
from apps.core.api import NumberCursorPagination
from apps.core.errors import Forbidden, InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX
from apps.runs.bulk_parsing import moment_us
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from apps.runs.selectors import runs_of

FILTERS = ("project", "state", "text", "person", "host", "node", "intent", "sweep", "from", "to")
PAGING = ("sort", "cursor", "page_size")
PARAM = "param."
_MAX_PARAMS = 10
_ORDERS = {"started": "started_us", "ended": "ended_or_going_on", "name": "name"}


class RunCursorPagination(NumberCursorPagination):
    """Pages in the order of ``sort``. A running run sorts after all ended ones."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500

    def get_ordering(
        self, request: Request, queryset: QuerySet[Any], view: APIView
    ) -> tuple[str, ...]:
        sort = request.query_params.get("sort", "-started")
        down = "-" if sort.startswith("-") else ""
        column = _ORDERS.get(sort.removeprefix("-"))
        if column is None:
            raise InvalidInput(
                f"{sort[:40]!r} is not a sort order.",
                field="sort",
                hint=f"Use one of {', '.join(_ORDERS)}, with - for descending.",
            )
        return f"{down}{column}", f"{down}id"

    def is_valid_position(self, text: str, request: Request) -> bool:
        if request.query_params.get("sort", "").removeprefix("-") == "name":
            return not is_unstorable(text)
        return super().is_valid_position(text, request)


def filter_runs(who: Caller, params: QueryDict) -> QuerySet[Run]:
    """Return the runs that match a request. Raises InvalidInput, and Forbidden for a person the
    caller may not see.
    """
    _check(params)
    if person := params.get("person", ""):
        person = _person(who, person)
    runs = runs_of(
        who.lab,
        project=params.get("project", ""),
        state=_one_of(params, "state", RunState.values),
        text=params.get("text", ""),
        intent=_one_of(params, "intent", Intent.values),
        sweep=params.get("sweep", ""),
        host=params.get("host", ""),
        node=_node(params.get("node", "")),
        person=person,
        from_us=_moment(params, "from"),
        to_us=_moment(params, "to"),
        params={
            name.removeprefix(PARAM): str(value)
            for name, value in params.items()
            if name.startswith(PARAM)
        },
    )
    return runs.annotate(
        ended_or_going_on=Coalesce("ended_us", Value(INT64_MAX, BigIntegerField()))
    )


def _check(params: QueryDict) -> None:
    by_param = [name for name in params if name.startswith(PARAM) and name != PARAM]
    unknown = sorted(set(params) - {*FILTERS, *PAGING, *by_param})
    if unknown:
        hint = f"Known: {', '.join(FILTERS)}, {PARAM}<name>."
        raise InvalidInput(f"{unknown[0]!r} is not a filter.", field=unknown[0], hint=hint)
    if len(by_param) > _MAX_PARAMS:
        raise InvalidInput(
            f"At most {_MAX_PARAMS} parameter filters are allowed.", field=by_param[_MAX_PARAMS]
        )
    for name, value in params.items():
        if is_unstorable(f"{name}{value}"):
            raise InvalidInput("Invalid character in filter.", field=name)


def _one_of(params: QueryDict, name: str, known: list[str]) -> str:
    value = params.get(name, "")
    if value and value not in known:
        article = "an" if name[0] in "aeiou" else "a"
        raise InvalidInput(
            f"{value!r} is not {article} {name}.",
            field=name,
            hint=f"Use one of {', '.join(known)}.",
        )
    return value


def _moment(params: QueryDict, name: str) -> int | None:
    text = params.get(name, "")
    return moment_us(text, name) if text else None


def _node(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError as error:
        raise InvalidInput(f"{text[:40]!r} is not the UUID of a node.", field="node") from error


def _person(who: Caller, person: str) -> str:
    """Return the requested account name ('me': the caller's). Some callers may not request
    others. Raises InvalidInput for a person who neither is a member nor has runs.
    """
    if person == "me":
        if who.user is None:
            raise InvalidInput("person=me requires a personal token.", field="person")
        return who.user.username
    own = who.user is not None and person == who.user.username
    role = role_in(who.lab, who.user) if who.user else ""
    if not may_see_person(role, who.lab.person_view, own=own):
        raise Forbidden(
            "You may not see runs by person in this lab.",
            field="person",
            hint="person=me is always allowed.",
        )
    if not (
        who.lab.memberships.filter(user__username=person).exists()
        or who.lab.runs.filter(
            Q(user__username=person) | Q(charged_person__username=person)
        ).exists()
    ):
        raise InvalidInput(
            f"There is no person {person[:60]!r} in this lab.",
            field="person",
            hint="Use the account name of a member.",
        )
    return person
