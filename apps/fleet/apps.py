from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "apps.fleet"

    def ready(self) -> None:
        from apps.fleet import receivers  # noqa: F401
