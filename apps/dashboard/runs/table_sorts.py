"""Sort orders and groups of the list of runs, as expressions over runs."""

from collections.abc import Callable

from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    Expression,
    F,
    OuterRef,
    Q,
    Subquery,
    Value,
    When,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Greatest, NullIf

from apps.carbon.figures.run_table_query import FIGURE_SORTS
from apps.carbon.figures.visibility import Visibility
from apps.runs.choices import RunState
from apps.runs.models import Metric

DEFAULT_SORT = "-started"
METRIC_SORT = "metric:"
SORTS = (
    "name", "project", "state", "user", "node", "sweep", "model", "intent", "started", "ended",
    "duration", *FIGURE_SORTS,
)  # fmt: skip
GROUPS = {"project": "Project", "person": "Person", "sweep": "Sweep", "model": "Model"}
HIDDEN_PERSON = "~hidden"  # group of all persons that the visitor may not see


def is_sort(name: str) -> bool:
    """Return whether a sort order exists."""
    return name in SORTS or (name.startswith(METRIC_SORT) and len(name) > len(METRIC_SORT))


def duration_us(now: int) -> Expression:
    """Return an expression equal to the duration of :meth:`Run.active_until_us`."""
    lost = Greatest(Coalesce("last_report_us", "started_us"), "started_us")
    until = Case(
        When(ended_us__isnull=False, then=F("ended_us")),
        When(state=RunState.LOST, then=lost),
        default=Value(now),
        output_field=BigIntegerField(),
    )
    return until - F("started_us")


def sort_expression(name: str, now: int, visibility: Visibility) -> str | Expression | F | Subquery:
    """Return the key of a sort order; null is unknown. FIGURE_SORTS are keys of the table
    itself.
    """
    if name in FIGURE_SORTS:
        return name
    if name.startswith(METRIC_SORT):
        metric = Metric.objects.filter(run=OuterRef("pk"), name=name.removeprefix(METRIC_SORT))
        return Subquery(metric.values("last_value")[:1])
    keys: dict[str, Callable[[], Expression | F]] = {
        "name": lambda: F("name"),
        "project": lambda: F("charged_project__name"),
        "state": lambda: F("state"),
        "user": lambda: _visible_user(visibility),
        "node": lambda: Coalesce(_filled("host"), "node__hostname"),
        "sweep": lambda: _filled("sweep"),
        "model": _model,
        "intent": lambda: F("intent"),
        "started": lambda: F("started_us"),
        "ended": lambda: F("ended_us"),
        "duration": lambda: duration_us(now),
    }
    return keys[name]()


def group_expression(name: str, visibility: Visibility) -> Expression:
    """Return the key of the group of a run as text, '' for none."""
    keys: dict[str, Callable[[], Expression | F]] = {
        "project": lambda: F("charged_project__slug"),
        "person": lambda: _visible_person(visibility),
        "sweep": lambda: F("sweep"),
        "model": _model,
    }
    return Coalesce(keys[name](), Value(""), output_field=CharField())


def _filled(name: str) -> Expression:
    return NullIf(name, Value(""))


def _model() -> Expression:
    """Return the parameter ``model`` of a run."""
    return Coalesce(
        KeyTextTransform("model", "params"), KeyTextTransform("model", "fingerprint__told")
    )


def _visible_user(visibility: Visibility) -> Expression:
    if visibility.everybody:
        return _filled("os_user")
    seen = Q(os_user__in=visibility.os_users) | Q(user_id=visibility.person_id)
    return Case(When(seen, then=_filled("os_user")), default=None, output_field=CharField())


def _visible_person(visibility: Visibility) -> Expression:
    person = Coalesce("charged_person_id", "user_id")
    if visibility.everybody:
        return Cast(person, CharField())
    own = Q(charged_person_id=visibility.person_id) | Q(
        charged_person_id=None, user_id=visibility.person_id
    )
    return Case(
        When(own, then=Value(str(visibility.person_id))),
        When(charged_person_id=None, user_id=None, then=Value("")),
        default=Value(HIDDEN_PERSON),
        output_field=CharField(),
    )
