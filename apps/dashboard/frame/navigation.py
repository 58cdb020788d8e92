"""The navigation: groups of pages, the current page, and counts where somebody must act."""

from collections.abc import Iterator, Sized
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from django.db.models import Count, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils.module_loading import module_has_submodule

from apps.accounts.models import Lab
from apps.dashboard import trackers
from apps.dashboard.decorators import Visitor
from apps.fleet.selectors import nodes_with_device_problems, silent_nodes
from apps.preflight.choices import FindingState
from apps.preflight.models import DuplicateFinding
from apps.trackers.registry import NAMES


@dataclass(frozen=True)
class Section:
    """A page of the navigation. ``paths`` and ``pages``: first parts of other addresses, and names
    of other pages, that belong to it. ``waiting``: names of what is counted.
    """

    name: str
    page: str
    icon: str
    paths: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    waiting: str = ""
    on_phone: bool = False


@dataclass(frozen=True)
class Entry:
    """A section as displayed. ``count``: number of things that wait for somebody, 0 for none."""

    name: str
    href: str
    icon: str
    current: bool
    count: int
    waiting: str
    on_phone: bool


@dataclass(frozen=True)
class Group:
    """Entries under a heading; '' for those without one."""

    name: str
    entries: list[Entry]


@dataclass(frozen=True)
class SettingsPage:
    """A page of the settings. ``for_managers``: for PIs and admins only."""

    name: str
    page: str
    for_managers: bool = False


def _tracker_pages() -> Iterator[SettingsPage]:
    """Return the page of each tracker that has one: ``SETTINGS_PAGE`` of its views."""
    for name in NAMES:
        if module_has_submodule(trackers, f"{name}_views"):
            module = import_module(f"{trackers.__name__}.{name}_views")
            yield SettingsPage(*module.SETTINGS_PAGE)


SETTINGS = (
    SettingsPage("Lab", "lab-settings"),
    SettingsPage("Basis of factors", "lab-basis"),
    SettingsPage("Tokens", "tokens"),
    SettingsPage("Attribution rules", "attribution-rules"),
    SettingsPage("Idle energy", "idle-policy"),
    *_tracker_pages(),
    SettingsPage("Asset sources", "asset-sources"),
    SettingsPage("Grid providers", "grid-providers", for_managers=True),
    SettingsPage("Audit log", "audit-log", for_managers=True),
)
GROUPS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    (
        "",
        (
            Section(
                "Overview", "overview", "home", pages=("overview-change", "change"), on_phone=True
            ),
        ),
    ),
    (
        "Use",
        (
            Section("Projects", "projects", "folder", pages=("unattributed",)),
            Section("People", "people", "users"),
            Section("Runs", "runs", "play-circle", on_phone=True),
            Section("Duplicates", "duplicates", "square-2-stack", waiting="open findings"),
            Section("Activities", "activities", "cloud", pages=("billing",)),
            Section("Artifacts", "artifacts", "archive-box"),
        ),
    ),
    (
        "Reduce",
        (
            Section("Greener hours", "greener-hours", "clock"),
            Section("Planner", "planner", "clipboard-document-list"),
            Section("Cleanup", "cleanup-plans", "trash", waiting="plans for you to decide"),
        ),
    ),
    (
        "Hardware",
        (
            Section(
                "Nodes",
                "nodes",
                "server-stack",
                ("devices",),
                waiting="nodes without uploads or with a device problem",
                on_phone=True,
            ),
            Section("Sites", "sites", "map-pin"),
            Section("Assets", "assets", "cpu-chip", on_phone=True),
            Section("Replacement", "replacement-ranking", "arrows-right-left"),
            Section("Catalogue", "catalog", "book-open"),
        ),
    ),
    (
        "Reports",
        (
            Section("Scopes", "scopes", "chart-pie"),
            Section("Market-based", "market", "scale"),
            Section("Statements", "statements", "document-check"),
            Section("Costs", "costs", "calculator"),
            Section("Budgets", "budgets", "banknotes"),
            Section("Emission factors", "factors", "bolt"),
        ),
    ),
    (
        "",
        (
            Section(
                "Settings",
                "lab-settings",
                "cog-6-tooth",
                ("claims",),
                tuple(each.page for each in SETTINGS),
            ),
        ),
    ),
)


# A list of what waits for somebody: its count is not that of a period.
_OF_ALL_TIMES = ("duplicates",)


def _counts(visitor: Visitor, plans_to_decide: Sized) -> dict[str, int]:
    """Return the number of things that wait for somebody, by section. One query."""
    found = silent_nodes(visitor.lab, visitor.now) | nodes_with_device_problems(visitor.lab)
    open_findings = DuplicateFinding.objects.filter(lab=visitor.lab, state=FindingState.OPEN)
    duplicates, nodes = Lab.objects.values_list(_number(open_findings), _number(found)).get(
        pk=visitor.lab.pk
    )
    return {
        "duplicates": duplicates,
        "cleanup-plans": len(plans_to_decide),
        "nodes": nodes,
    }


def _number(rows: QuerySet[Any]) -> Coalesce:
    """Return the number of rows of one lab as an expression."""
    counted = rows.order_by().values("lab").annotate(number=Count("pk", distinct=True))
    return Coalesce(Subquery(counted.values("number")), 0)


def current_page(path: str) -> str:
    """Return the section with the longest start of ``path``, '' for none."""
    starts = [
        (start, section.page)
        for _, sections in GROUPS
        for section in sections
        for start in (
            *(reverse(page) for page in (section.page, *section.pages)),
            *("/".join(("", part, "")) for part in section.paths),
        )
        if path == start or (start != reverse("overview") and path.startswith(start))
    ]
    return max(starts, key=lambda found: len(found[0]))[1] if starts else ""


def navigation(
    visitor: Visitor, path: str, plans_to_decide: Sized, period_params: str = ""
) -> list[Group]:
    """Return the groups of the navigation for the page at ``path``. Links contain
    ``period_params``. Two queries, and what ``plans_to_decide`` needs.
    """
    query = f"?{period_params}" if period_params else ""
    current = current_page(path)
    counts = _counts(visitor, plans_to_decide)
    return [
        Group(
            name,
            [
                Entry(
                    section.name,
                    reverse(section.page) + ("" if section.page in _OF_ALL_TIMES else query),
                    section.icon,
                    section.page == current,
                    counts.get(section.page, 0),
                    section.waiting,
                    section.on_phone,
                )
                for section in sections
            ],
        )
        for name, sections in GROUPS
    ]


@dataclass(frozen=True)
class SettingsEntry:
    """A page of the settings as displayed."""

    name: str
    href: str
    current: bool


def settings_pages(visitor: Visitor, path: str) -> list[SettingsEntry]:
    """Return the pages of the settings that the visitor may open, on one of them; else none."""
    if current_page(path) != "lab-settings":
        return []
    pages = [each for each in SETTINGS if visitor.can_manage or not each.for_managers]
    starts = [reverse(each.page) for each in pages if path.startswith(reverse(each.page))]
    current = max(starts, key=len, default="")
    return [
        SettingsEntry(each.name, reverse(each.page), reverse(each.page) == current)
        for each in pages
    ]
