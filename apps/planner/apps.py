from django.apps import AppConfig


class PlannerConfig(AppConfig):
    name = "apps.planner"

    def ready(self) -> None:
        from apps.planner.outcomes import jobs, receivers  # noqa: F401
