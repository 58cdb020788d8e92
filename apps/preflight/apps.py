from django.apps import AppConfig


class PreflightConfig(AppConfig):
    name = "apps.preflight"

    def ready(self) -> None:
        from apps.preflight import jobs, receivers  # noqa: F401
