"""Parse the parameters of a URL as a figure query. Invalid queries raise an error. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from apps.carbon.figures.figure_query import (
    CONSUMERS,
    COST,
    HARDWARE_CONSUMERS,
    HARDWARE_OF,
    INVENTORY,
    METRICS,
    MOST_RUNS,
    QUALITIES,
    SUBJECTS,
    USE_CONSUMERS,
    USE_METRICS,
    WASTES,
    FigureQuery,
)
from apps.carbon.figures.scopes import PROFILES, SCOPES
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number
from apps.fleet.choices import CURRENCIES


def _hour(text: str, field: str, *, up: bool) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{text!r} is not a time.",
            field=field,
            hint="Write UTC as 2026-11-01T00:00Z or 2026-11-01.",
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    hour = -(-seconds // 3600) if up else seconds // 3600
    if not 0 <= hour < 3_000_000:
        raise InvalidInput(
            f"{text!r} is out of range.", field=field, hint="Choose a year between 1970 and 2300."
        )
    return hour


def _one_of(value: str, allowed: Sequence[str], field: str) -> str:
    if value not in allowed:
        raise InvalidInput(
            f"{value!r} is not a {field}.", field=field, hint=f"Use one of {', '.join(allowed)}."
        )
    return value


def parse_query(
    params: Mapping[str, str], *, basis: str, profile: str = "ghg_protocol", currency: str = ""
) -> FigureQuery:
    """Return the query of ``params``. Raises InvalidInput with the field and its valid values.

    ``basis`` must be the lab's basis: another one is refused, not replaced. The default ``profile``
    and ``currency`` are those of the lab.
    """
    for name in ("metric", "from", "to"):
        if not params.get(name):
            raise InvalidInput(
                f"{name!r} is missing.", field=name, hint="Needed: metric, from, to."
            )
    kind, _, key = params.get("subject", "lab").partition(":")
    _one_of(kind, SUBJECTS, "subject")
    if (kind == "lab") == bool(key):
        raise InvalidInput(
            "A subject is lab, or kind:key.", field="subject", hint="For example project:demo."
        )
    if kind in {"person", "asset"} and parse_record_number(key) is None:
        raise InvalidInput(
            f"{key[:40]!r} is not the number of a {kind}.",
            field="subject",
            hint=f"Write {kind}:<number>.",
        )
    if kind in {"run", "node"}:
        try:
            key = str(UUID(key))
        except ValueError as error:
            raise InvalidInput(
                f"{key!r} is not a UUID.", field="subject", hint=f"Write {kind}:<uuid>."
            ) from error
    if params.get("accounting", "location") == "market":
        raise InvalidInput(
            (
                "There is no market-based figure: no certificate, contract or residual mix can be "
                "recorded yet."
            ),
            field="accounting",
            hint="Use accounting=location.",
        )
    if kind == "runs":
        key = _runs(key)
    from_hour, to_hour = _hour(params["from"], "from", up=False), _hour(params["to"], "to", up=True)
    if to_hour <= from_hour:
        raise InvalidInput(
            "The period is empty.", field="to", hint="'to' is after 'from'; it is not included."
        )
    if to_hour - from_hour > 100 * 366 * 24:
        raise InvalidInput(
            "The period is longer than 100 years.", field="to", hint="Choose a shorter one."
        )
    basis_param = params.get("basis", basis)
    if basis_param != basis:
        raise InvalidInput(
            f"This lab reports on the {basis} basis.",
            field="basis",
            hint=f"Use basis={basis}, or leave it out.",
        )
    quality, consumer, scope = (params.get(name, "") for name in ("quality", "consumer", "scope"))
    waste = params.get("waste", "")
    profile_param = _one_of(params.get("profile") or profile, PROFILES, "profile")
    query = FigureQuery(
        metric=_one_of(params["metric"], METRICS, "metric"),
        subject_kind=kind,
        subject_key=key,
        from_hour=from_hour,
        to_hour=to_hour,
        accounting=_one_of(params.get("accounting", "location"), ("location",), "accounting"),
        basis=basis,
        profile=profile_param,
        quality=_one_of(quality, QUALITIES, "quality") if quality else "",
        consumer=_one_of(consumer, CONSUMERS, "consumer") if consumer else "",
        waste=_one_of(waste, WASTES, "waste") if waste else "",
        project=params.get("project", ""),
        os_user=params.get("os_user", ""),
        program=params.get("program", ""),
        use=params.get("use", ""),
        scope=_one_of(scope, SCOPES[profile_param], "scope") if scope else "",
        currency=_currency(params, currency),
    )
    _check(query)
    return query


def _currency(params: Mapping[str, str], default: str) -> str:
    """Return the currency of a cost, '' for other metrics."""
    requested = params.get("currency", "")
    if params["metric"] != COST:
        if requested:
            raise InvalidInput(
                "Only a cost has a currency.", field="currency", hint=f"Use metric={COST}."
            )
        return ""
    return _one_of(requested, sorted(CURRENCIES), "currency") if requested else default


def _runs(text: str) -> str:
    """Return the distinct UUIDs of runs."""
    parts = text.split(",")
    if len(parts) > MOST_RUNS:
        raise InvalidInput(
            f"{len(parts)} runs are more than {MOST_RUNS}.", field="subject", hint="Ask in parts."
        )
    try:
        return ",".join(dict.fromkeys(str(UUID(part)) for part in parts))
    except ValueError as error:
        raise InvalidInput(
            "One of the runs is no UUID.", field="subject", hint="Write runs:<uuid>,<uuid>."
        ) from error


_OF_USE = ("quality", "waste", "os_user", "program", "use")


def _check(query: FigureQuery) -> None:
    """Raise InvalidInput for a query that its metric does not support."""
    of_use, together = query.metric in USE_METRICS, query.metric in HARDWARE_OF
    if of_use and query.subject_kind == "asset":
        raise InvalidInput(
            "Energy is measured by devices, not by assets.",
            field="subject",
            hint="Ask for device:<key>.",
        )
    if not of_use and query.subject_kind in {"run", "runs", "person"}:
        raise InvalidInput(
            (
                f"Hardware is charged to projects: what a {query.subject_kind} bears of it is not "
                "known."
            ),
            field="subject",
            hint="Ask for subject=project:<slug>.",
        )
    narrowed = [] if of_use else [name for name in _OF_USE if getattr(query, name)]
    if narrowed:
        raise InvalidInput(
            f"Hardware has no filter {narrowed[0]}.",
            field=narrowed[0],
            hint=f"Leave {narrowed[0]} out of this figure.",
        )
    if INVENTORY in (query.metric, HARDWARE_OF.get(query.metric)) and query.consumer:
        raise InvalidInput(
            "The inventory books what was bought, whoever uses it.",
            field="consumer",
            hint="Ask for metric=embodied_ug, which spreads it over use.",
        )
    known = CONSUMERS if together else USE_CONSUMERS if of_use else HARDWARE_CONSUMERS
    if query.consumer and query.consumer not in known:
        other = "hardware" if of_use else "energy"
        raise InvalidInput(
            f"{query.consumer!r} is available for {other} only.",
            field="consumer",
            hint=f"Use one of {', '.join(known)}.",
        )
