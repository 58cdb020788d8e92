from django.apps import AppConfig


class CarbonConfig(AppConfig):
    name = "apps.carbon"

    def ready(self) -> None:
        from apps.carbon import listening, tasks  # noqa: F401
