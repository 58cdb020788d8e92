"""Registers the project-wide system checks."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "labcarbon"
    label = "labcarbon"

    def ready(self) -> None:
        from labcarbon import checks  # noqa: F401
