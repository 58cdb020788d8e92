"""Of what a figure is, and to what it is narrowed, in words."""

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.figures.query import HIDDEN, USE_METRICS, FigureQuery
from apps.carbon.figures.scopes import PROFILE_NAMES, SCOPE_NAMES
from apps.core.errors import NotFound
from apps.core.text import is_unstorable
from apps.fleet.models import Device, Node
from apps.runs.models import Run

_OF_USE = {
    "idle": "devices that were on with nobody using them",
    "idle_share": "its share of devices that were on with nobody using them",
    "overhead": "the rest of the nodes",
    "unattributed": "work that nobody claimed",
}
_OF_HARDWARE = {
    **_OF_USE,
    "used": "time in use",
    "idle": "time that hardware was on with nobody using it",
    "idle_share": "its share of time that hardware was on with nobody using it",
    "unmeasured": "time that hardware was off or not measured",
    "held": "hardware held without a meter",
    "lent": "hardware that was lent",
    "end_of_life": "end of life as it was, against the estimate",
    "written_off": "what was written off at disposal",
}


def subject_of(lab: Lab, query: FigureQuery) -> tuple[str, str, Node | None]:
    """Return the subject's name, page and (for a node or device) node; one answer for unknown and not yours."""
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
            return node.hostname, reverse("node", args=[key]), node
    if kind == "device":
        device = Device.objects.filter(lab=lab, key=key).select_related("node").first()
        if device is not None:
            return (
                f"{device.name or device.key} in {device.node.hostname}",
                reverse("node", args=[device.node.uuid]),
                device.node,
            )
    raise NotFound(f"There is no such {query.subject_kind} in your lab.", hint="Start from a figure on the Overview.")


def _name(lab: Lab, kind: str, key: str) -> str | None:
    """Return the name of a project, person, run or asset. None: not there."""
    if kind == "project":
        return lab.projects.filter(slug=key).values_list("name", flat=True).first()
    if kind == "person":
        return lab.memberships.filter(user_id=int(key)).values_list("user__username", flat=True).first()
    if kind == "asset":
        return lab.assets.filter(pk=int(key)).values_list("name", flat=True).first()
    return Run.objects.filter(lab=lab, uuid=key).values_list("name", flat=True).first()


def narrowed_words(query: FigureQuery) -> str:
    """Return to what a figure is narrowed, in words; '' if to nothing."""
    words = []
    if query.consumer:
        words.append(f"only {(_OF_USE if query.metric in USE_METRICS else _OF_HARDWARE)[query.consumer]}")
    if query.quality:
        words.append(f"only energy of quality {query.quality.lower()}")
    if query.project:
        words.append("only charged to no project" if query.project == HIDDEN else f"only charged to {query.project}")
    if query.os_user:
        words.append("only of users who are not told" if query.os_user == HIDDEN else f"only of user {query.os_user}")
    if query.program:
        words.append("only with programs not told" if query.program == HIDDEN else f"only with {query.program}")
    if query.use:
        words.append(f"only {query.use}")
    if query.scope:
        words.append(f"only {SCOPE_NAMES[query.scope]}, profile {PROFILE_NAMES[query.profile]}")
    return ", ".join(words)
