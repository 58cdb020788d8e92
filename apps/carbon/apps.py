from django.apps import AppConfig


class CarbonConfig(AppConfig):
    name = "apps.carbon"

    def ready(self) -> None:
        from apps.carbon import tasks  # noqa: F401
