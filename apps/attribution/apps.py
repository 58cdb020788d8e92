from django.apps import AppConfig


class AttributionConfig(AppConfig):
    name = "apps.attribution"

    def ready(self) -> None:
        from apps.attribution import jobs, receivers  # noqa: F401
