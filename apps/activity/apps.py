from django.apps import AppConfig


class ActivityConfig(AppConfig):
    name = "apps.activity"

    def ready(self) -> None:
        from apps.activity import jobs  # noqa: F401
