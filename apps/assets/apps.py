from django.apps import AppConfig


class AssetsConfig(AppConfig):
    name = "apps.assets"

    def ready(self) -> None:
        from apps.assets import jobs, receivers  # noqa: F401
