from django.apps import AppConfig


class IngestConfig(AppConfig):
    name = "apps.ingest"

    def ready(self) -> None:
        from apps.ingest import jobs  # noqa: F401
