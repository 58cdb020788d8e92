from django.apps import AppConfig


class TrackersConfig(AppConfig):
    name = "apps.trackers"

    def ready(self) -> None:
        from apps.trackers.registry import import_parts

        import_parts("jobs")
