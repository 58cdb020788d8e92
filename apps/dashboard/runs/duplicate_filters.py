"""Filters of the list of duplicate findings."""

from collections.abc import Mapping

from django.db.models import Q, QuerySet

from apps.accounts.models import Lab
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.dashboard.runs.run_filters import member_name, span_us
from apps.preflight.choices import RECORDED_VERDICTS, Certainty, FindingState
from apps.preflight.finding_selectors import list_findings
from apps.preflight.models import DuplicateFinding

_OF_FINDINGS = ("state", "verdict", "certainty", "project", "text", "family")
PERIOD_FILTERS = ("period", "from", "to")
FILTERS = (*_OF_FINDINGS, "mine", "person", *PERIOD_FILTERS)
SORTS = ("newest", "energy")
EVERY_STATE = "all"
_ALLOWED = {
    "state": [*FindingState.values, EVERY_STATE],
    "verdict": sorted(verdict.value for verdict in RECORDED_VERDICTS),
    "certainty": Certainty.values,
}


def filter_findings(
    lab: Lab, params: Mapping[str, str], visibility: Visibility, now: int
) -> tuple[QuerySet[DuplicateFinding], dict[str, str]]:
    """Return the filtered findings and the filters. The default state is open. ``person`` and the
    period are of the newer run; ``mine``: the visitor is the user of one of the two runs, and can
    decide. Raises InvalidInput and Forbidden.
    """
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    filters["state"] = filters["state"] or FindingState.OPEN.value
    for name, values in _ALLOWED.items():
        if filters[name]:
            _require_choice(name, filters[name], values)
    if is_unstorable("".join(filters.values())):
        raise InvalidInput("Invalid character in filter.", field="text", hint="Remove it.")
    state = "" if filters["state"] == EVERY_STATE else filters["state"]
    findings = list_findings(
        lab, **{**{name: filters[name] for name in _OF_FINDINGS}, "state": state}
    )
    if filters["mine"]:
        own = visibility.person_id
        findings = findings.filter(Q(run__user_id=own) | Q(original__user_id=own))
    if person := member_name(lab, filters["person"], visibility):
        findings = findings.filter(
            Q(run__charged_person__username=person)
            | Q(run__charged_person=None, run__user__username=person)
        )
    if filters["from"] or filters["to"]:
        filters["period"] = ""
    from_us, to_us = span_us(lab, filters, now)
    if from_us is not None:
        findings = findings.filter(run__started_us__gte=from_us)
    if to_us is not None:
        findings = findings.filter(run__started_us__lt=to_us)
    return findings, filters


def parse_sort(params: Mapping[str, str]) -> str:
    """Return the order of the list, newest first by default."""
    sort = params.get("sort", "").strip() or SORTS[0]
    _require_choice("sort", sort, SORTS)
    return sort


def parse_page_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= 10**7:
        raise InvalidInput(
            f"Invalid page number: {text[:20]!r}.", field="page", hint="The first page is 1."
        )
    return int(text[:9])


def _require_choice(name: str, value: str, values: list[str] | tuple[str, ...]) -> None:
    if value not in values:
        raise InvalidInput(
            f"Invalid {name}: {value[:40]!r}.",
            field=name,
            hint=f"Use one of {', '.join(values)}.",
        )
