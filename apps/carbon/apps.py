from django.apps import AppConfig


class CarbonConfig(AppConfig):
    name = "apps.carbon"

    def ready(self) -> None:
        from apps.carbon import jobs, receivers  # noqa: F401
