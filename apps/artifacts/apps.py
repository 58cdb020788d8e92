from django.apps import AppConfig


class ArtifactsConfig(AppConfig):
    name = "apps.artifacts"

    def ready(self) -> None:
        from apps.artifacts import jobs, receivers  # noqa: F401
