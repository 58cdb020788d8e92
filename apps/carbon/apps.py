from django.apps import AppConfig


class CarbonConfig(AppConfig):
    name = "apps.carbon"

    def ready(self) -> None:
        from apps.carbon import receivers, tasks  # noqa: F401
