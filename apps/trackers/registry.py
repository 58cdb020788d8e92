"""Registry of trackers. A tracker is one folder ``apps/trackers/<name>/`` and one name in
``NAMES``.

The folder contains ``tracker.py`` with ``TRACKER``, and, as needed, ``models.py``, ``jobs.py`` and
``urls.py`` (routes). Pages are in ``apps/dashboard/trackers/<name>_views.py``. See
docs/development/add-a-tracker.md.
"""

from functools import cache
from importlib import import_module
from types import ModuleType

from django.utils.module_loading import module_has_submodule

from apps.accounts.models import Lab
from apps.runs.models import Run
from apps.trackers.tracker import Problem, RunPanel, Tracker

NAMES = ("codecarbon", "mlflow")


@cache
def trackers() -> tuple[Tracker, ...]:
    """Return the registered trackers."""
    return tuple(import_module(f"apps.trackers.{name}.tracker").TRACKER for name in NAMES)


def import_parts(part: str) -> list[ModuleType]:
    """Import the module ``part`` of each tracker that has one, and return these modules."""
    packages = [import_module(f"apps.trackers.{name}") for name in NAMES]
    return [
        import_module(f"{package.__name__}.{part}")
        for package in packages
        if module_has_submodule(package, part)
    ]


def run_panels(run: Run) -> list[tuple[Tracker, RunPanel]]:
    """Return the panels for the page of a run."""
    panels = [(tracker, tracker.run_panel(run)) for tracker in trackers() if tracker.run_panel]
    return [(tracker, panel) for tracker, panel in panels if panel is not None]


def problems(lab: Lab) -> list[Problem]:
    """Return the problems of all trackers of a lab."""
    return [
        problem for tracker in trackers() if tracker.problems for problem in tracker.problems(lab)
    ]


def accepts_verdict(run: Run) -> bool:
    """Return whether any tracker accepts a verdict for this run."""
    return any(tracker.verdicts.accepts(run) for tracker in trackers() if tracker.verdicts)


def queue_verdict(run: Run, text: str) -> None:
    """Queue ``text`` as the verdict of a run at each tracker that accepts it; '' removes the
    verdict.
    """
    for tracker in trackers():
        if tracker.verdicts and tracker.verdicts.accepts(run):
            tracker.verdicts.queue(run, text)
