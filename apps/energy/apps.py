from django.apps import AppConfig


class EnergyConfig(AppConfig):
    name = "apps.energy"

    def ready(self) -> None:
        from apps.energy import jobs  # noqa: F401
