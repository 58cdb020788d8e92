"""Base class of management commands that need neither pages nor the API."""

from django.core.management.base import BaseCommand

CHECK_TAG = "labcarbon"  # tag of the project's system checks, labcarbon/checks.py


class MinimalCommand(BaseCommand):
    """A command that checks the environment first and does not load parts of the web server only.

    It starts in half the time, and a worker needs less memory.
    """

    requires_system_checks = [CHECK_TAG]
