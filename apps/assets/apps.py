from django.apps import AppConfig


class AssetsConfig(AppConfig):
    name = "apps.assets"

    def ready(self) -> None:
        from apps.assets import receivers, tasks  # noqa: F401
