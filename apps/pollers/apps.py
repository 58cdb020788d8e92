from django.apps import AppConfig


class PollersConfig(AppConfig):
    name = "apps.pollers"

    def ready(self) -> None:
        from apps.pollers import jobs  # noqa: F401
