"""Search in all of a lab: a few results of each kind. The number of queries is constant.

Runs, assets and artifacts are searched as their lists are, so that a list shows all results.
People are found only by a visitor who may see their energy.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.urls import reverse

from apps.accounts.choices import Role
from apps.accounts.models import Project
from apps.artifacts.selectors import ArtifactFilter, filter_artifacts
from apps.assets.selectors import Filters, matching
from apps.carbon.figures.visibility import visibility_for
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable, uuid_range
from apps.dashboard.decorators import Visitor
from apps.dashboard.frame.navigation import GROUPS, SETTINGS
from apps.dashboard.help.help_search import search_help
from apps.fleet.models import Device
from apps.fleet.selectors import measured_nodes, sites_of
from apps.runs.selectors import runs_of

FEW, MANY = 5, 200
MOST_CHARACTERS = 100


@dataclass(frozen=True)
class Result:
    """A link to something of the lab. ``started_us``: of a run."""

    title: str
    href: str
    detail: str = ""
    started_us: int | None = None


@dataclass(frozen=True)
class ResultGroup:
    """The first results of a kind. ``all_href``: the address of all, '' if there are no more."""

    kind: str
    name: str
    results: list[Result]
    all_href: str


@dataclass(frozen=True)
class Kind:
    """What can be found. ``search`` returns the first results. ``listing``: name of the page of a
    list with the filter ``text``, '' for none.
    """

    key: str
    name: str
    search: Callable[[Visitor, str, int], list[Result]]
    listing: str = ""


def parse_text(text: str) -> str:
    """Return the words of a search. Raises InvalidInput."""
    if is_unstorable(text):
        raise InvalidInput("Invalid character in search.", field="q", hint="Remove it.")
    return " ".join(text[:MOST_CHARACTERS].split())


def search_lab(visitor: Visitor, text: str, kind: str = "") -> list[ResultGroup]:
    """Return the groups with results: a few of each kind, or many of one. Raises InvalidInput."""
    if kind and kind not in {each.key for each in KINDS}:
        hint = f"Use one of {', '.join(each.key for each in KINDS)}."
        raise InvalidInput(f"Unknown kind {kind[:40]!r}.", field="kind", hint=hint)
    if not text:
        return []
    groups = (
        _group(visitor, each, text, MANY if kind else FEW)
        for each in KINDS
        if kind in {"", each.key}
    )
    return [group for group in groups if group.results]


def _group(visitor: Visitor, kind: Kind, text: str, limit: int) -> ResultGroup:
    results = kind.search(visitor, text, limit + 1)
    if kind.listing:
        all_href = f"{reverse(kind.listing)}?{urlencode({'text': text})}"
    else:
        all_href = f"{reverse('search')}?{urlencode({'q': text, 'kind': kind.key})}"
    has_more = len(results) > limit and (limit == FEW or bool(kind.listing))
    return ResultGroup(kind.key, kind.name, results[:limit], all_href if has_more else "")


def _containing(rows: QuerySet[Any], text: str, *fields: str, or_else: Q | None = None) -> Any:
    """Return the rows that contain each word of ``text`` in one of ``fields``."""
    matches = Q()
    for word in text.split():
        in_fields = Q()
        for field in fields:
            in_fields |= Q(**{f"{field}__icontains": word})
        matches &= in_fields
    return rows.filter(matches | or_else if or_else else matches)


def _pages(visitor: Visitor, text: str, limit: int) -> list[Result]:
    sections: Iterable[tuple[str, str, str]] = (
        *((each.name, each.page, group) for group, pages in GROUPS for each in pages),
        *(
            (each.name, each.page, "Settings")
            for each in SETTINGS
            if visitor.can_manage or not each.for_managers
        ),
    )
    words = text.casefold().split()
    return [
        Result(name, reverse(page), group)
        for name, page, group in sections
        if all(word in f"{group} {name}".casefold() for word in words)
    ][:limit]


def _runs(visitor: Visitor, text: str, limit: int) -> list[Result]:
    return [
        Result(
            run.name,
            reverse("run", args=[run.uuid]),
            " · ".join(
                filter(
                    None,
                    (
                        run.charged_project.name if run.charged_project else "",
                        run.get_state_display(),
                    ),
                )
            ),
            run.started_us,
        )
        for run in runs_of(visitor.lab, text=text)[:limit]
    ]


def _projects(visitor: Visitor, text: str, limit: int) -> list[Result]:
    projects = Project.objects.filter(lab=visitor.lab).order_by("name", "id")
    return [
        Result(project.name, reverse("project", args=[project.slug]), project.slug)
        for project in _containing(projects, text, "name", "slug")[:limit]
    ]


def _people(visitor: Visitor, text: str, limit: int) -> list[Result]:
    visibility = visibility_for(visitor.lab, visitor.user)
    members = visitor.lab.memberships.select_related("user").order_by("user__username")
    if not visibility.everybody:
        members = members.filter(user=visitor.user)
    names = ("user__username", "user__first_name", "user__last_name")
    return [
        Result(
            member.user.get_full_name() or member.user.get_username(),
            reverse("person", args=[member.user_id]),
            " · ".join(dict.fromkeys((member.user.get_username(), Role(member.role).label))),
        )
        for member in _containing(members, text, *names)[:limit]
    ]


def _nodes(visitor: Visitor, text: str, limit: int) -> list[Result]:
    span = uuid_range(text)
    nodes = measured_nodes(visitor.lab)
    return [
        Result(node.hostname, reverse("node", args=[node.uuid]), str(node.uuid)[:8])
        for node in _containing(
            nodes, text, "hostname", or_else=Q(uuid__range=span) if span else None
        )[:limit]
    ]


def _devices(visitor: Visitor, text: str, limit: int) -> list[Result]:
    devices = Device.objects.filter(lab=visitor.lab).select_related("node").order_by("key")
    return [
        Result(device.name or device.key, reverse("device", args=[device.key]), device.key)
        for device in _containing(devices, text, "key", "name")[:limit]
    ]


def _sites(visitor: Visitor, text: str, limit: int) -> list[Result]:
    return [
        Result(site.name, reverse("site", args=[site.pk]), site.get_kind_display())
        for site in _containing(sites_of(visitor.lab), text, "name")[:limit]
    ]


def _assets(visitor: Visitor, text: str, limit: int) -> list[Result]:
    assets = matching(visitor.lab, Filters(text=text)).select_related("model")
    return [
        Result(
            asset.name,
            reverse("asset", args=[asset.pk]),
            " · ".join(filter(None, (asset.get_kind_display(), asset.serial, asset.tag))),
        )
        for asset in assets.order_by("name", "id")[:limit]
    ]


def _artifacts(visitor: Visitor, text: str, limit: int) -> list[Result]:
    return [
        Result(
            artifact.name,
            reverse("artifact", args=[artifact.digest]),
            f"{artifact.get_kind_display()} · {artifact.digest[:12]}",
        )
        for artifact in filter_artifacts(visitor.lab, ArtifactFilter(text=text))[:limit]
    ]


def _help(visitor: Visitor, text: str, limit: int) -> list[Result]:
    return [Result(hit.title, hit.href, hit.document.title) for hit in search_help(text, limit)]


KINDS = (
    Kind("pages", "Pages", _pages),
    Kind("projects", "Projects", _projects),
    Kind("people", "People", _people),
    Kind("runs", "Runs", _runs, "runs"),
    Kind("artifacts", "Artifacts", _artifacts, "artifacts"),
    Kind("nodes", "Nodes", _nodes),
    Kind("devices", "Devices", _devices),
    Kind("sites", "Sites", _sites),
    Kind("assets", "Assets", _assets, "assets"),
    Kind("help", "Help", _help),
)
