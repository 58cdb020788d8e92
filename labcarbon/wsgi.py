"""Entry point of the web process (gunicorn labcarbon.wsgi). Exits if a system check reports an
error.
"""

import gc
import os
import sys

import django
from django.conf import settings
from django.core.checks import ERROR, run_checks
from django.core.wsgi import get_wsgi_application

from apps.core.apps import limit_statements
from apps.core.management.base import CHECK_TAG
from labcarbon.entrance import Entrance


def _exit_on_errors(tags: list[str] | None = None) -> None:
    problems = [
        problem
        for problem in run_checks(tags=tags)
        if problem.level >= ERROR and not problem.is_silenced()
    ]
    if problems:
        sys.exit("\n".join(["LabCarbon does not start:", *(str(problem) for problem in problems)]))


# Loading creates almost no garbage, and collecting it would take a quarter of the start-up time.
gc.disable()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
django.setup()
# Django runs checks only for management commands. Without this, a web server could start with debug
# pages or without a key.
# Configuration errors are reported before the pages are loaded for the other checks.
_exit_on_errors([CHECK_TAG])
limit_statements(settings.WEB_STATEMENT_TIMEOUT_S)
application = Entrance(get_wsgi_application())
_exit_on_errors()

from apps.dashboard.charts import load_plotly  # noqa: E402 - apps can be imported only after django.setup

load_plotly()

# Loaded objects live as long as the process, so the garbage collector need not scan them.
gc.freeze()
gc.enable()
