"""Subject and filters of a figure as text."""

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import HIDDEN, USE_METRICS, FigureQuery
from apps.carbon.figures.scopes import PROFILE_NAMES, SCOPE_NAMES
from apps.core.errors import NotFound
from apps.core.text import is_unstorable
from apps.fleet.models import Device, Node
from apps.runs.models import Run

_OF_USE = {
    "idle": "idle devices",
    "idle_share": "its share of idle devices",
    "overhead": "node overhead",
    "system": "system processes",
    "unattributed": "unattributed energy",
}
_OF_WASTE = {
    "duplicate": "duplicate runs",
    "failed": "failed runs that are no duplicates",
    "idle": "idle devices",
    "any": "what could have been saved: duplicate runs, failed runs, idle devices",
}
_OF_HARDWARE = {
    **_OF_USE,
    "used": "time in use",
    "idle": "idle time of hardware",
    "idle_share": "its share of the idle time of hardware",
    "unmeasured": "time in which hardware was off or not measured",
    "held": "hardware without a meter",
    "lent": "lent hardware",
    "end_of_life": "end of life, difference from the estimate",
    "written_off": "hardware written off at disposal",
}


def subject_of(lab: Lab, query: FigureQuery) -> tuple[str, str, Node | None]:
    """Return name and page of the subject, and the node of a node or device. Subjects of other
    labs are unknown too.
    """
    key, kind = query.subject_key, query.subject_kind
    if is_unstorable(key):
        kind = "unknown"
    if kind == "lab":
        return lab.name, reverse("overview"), None
    if kind in {"project", "person", "run", "asset"}:
        name = _name(lab, kind, key)
        if name is not None:
            return name, reverse(kind, args=[key]), None
    if kind == "runs":
        uuids = key.split(",")
        if lab.runs.filter(uuid__in=uuids).count() == len(uuids):
            return f"{len(uuids)} run{'s' if len(uuids) > 1 else ''}", reverse("runs"), None
    if kind == "node":
        node = Node.objects.filter(lab=lab, uuid=key).first()
        if node is not None:
            return node.name, reverse("node", args=[key]), node
    if kind == "device":
        device = Device.objects.filter(lab=lab, key=key).select_related("node").first()
        if device is not None:
            return (
                f"{device.name or device.key} in {device.node.name}",
                reverse("node", args=[device.node.uuid]),
                device.node,
            )
    raise NotFound(
        f"No such {query.subject_kind} in this lab.", hint="Start from a figure on the Overview."
    )


def _name(lab: Lab, kind: str, key: str) -> str | None:
    """Return the name of a project, person, run or asset, None for an unknown one."""
    if kind == "project":
        return lab.projects.filter(slug=key).values_list("name", flat=True).first()
    if kind == "person":
        return (
            lab.memberships.filter(user_id=int(key))
            .values_list("user__username", flat=True)
            .first()
        )
    if kind == "asset":
        return lab.assets.filter(pk=int(key)).values_list("name", flat=True).first()
    return Run.objects.filter(lab=lab, uuid=key).values_list("name", flat=True).first()


def filter_text(query: FigureQuery) -> str:
    """Return the filters of a figure as text, '' for none."""
    filters = []
    if query.consumer:
        filters.append(
            f"only {(_OF_USE if query.metric in USE_METRICS else _OF_HARDWARE)[query.consumer]}"
        )
    if query.waste:
        filters.append(f"only {_OF_WASTE[query.waste]}")
    if query.quality:
        filters.append(f"only energy of quality {query.quality.lower()}")
    if query.project:
        filters.append(
            "only energy without a project"
            if query.project == HIDDEN
            else f"only charged to {query.project}"
        )
    if query.os_user:
        filters.append(
            "only of unknown users" if query.os_user == HIDDEN else f"only of user {query.os_user}"
        )
    if query.program:
        filters.append(
            "only with unknown programs"
            if query.program == HIDDEN
            else f"only with {query.program}"
        )
    if query.use:
        filters.append(f"only {query.use}")
    if query.scope:
        filters.append(f"only {SCOPE_NAMES[query.scope]}, profile {PROFILE_NAMES[query.profile]}")
    return ", ".join(filters)
