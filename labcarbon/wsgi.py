"""The web process's entry point (gunicorn labcarbon.wsgi). It refuses to start where a system check finds an error."""

import gc
import os
import sys

import django
from django.core.checks import ERROR, run_checks
from django.core.wsgi import get_wsgi_application

from apps.core.management.base import CHECK_TAG


def _refuse(tags: list[str] | None = None) -> None:
    problems = [problem for problem in run_checks(tags=tags) if problem.level >= ERROR and not problem.is_silenced()]
    if problems:
        sys.exit("\n".join(["LabCarbon does not start:", *(str(problem) for problem in problems)]))


gc.disable()  # until all is loaded: next to nothing of that is garbage, and to look for it is a quarter of the start
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
django.setup()
# Django runs its checks for management commands alone; a web server would start with debug pages on, or without a key.
# Mistakes in the environment are told before the pages are loaded for the other checks.
_refuse([CHECK_TAG])
application = get_wsgi_application()
_refuse()

from apps.dashboard.charts import load_plotly  # noqa: E402 - nothing of the apps can be loaded before Django

load_plotly()

# What is loaded by now stays as long as the process: pages with many objects need not have it searched for garbage.
gc.freeze()
gc.enable()
