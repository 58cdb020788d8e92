from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "apps.runs"

    def ready(self) -> None:
        from apps.runs import jobs  # noqa: F401
