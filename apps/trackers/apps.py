from django.apps import AppConfig


class TrackersConfig(AppConfig):
    name = "apps.trackers"

    def ready(self) -> None:
        from apps.trackers import tasks  # noqa: F401
