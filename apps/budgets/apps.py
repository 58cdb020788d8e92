from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    name = "apps.budgets"

    def ready(self) -> None:
        from apps.budgets import jobs  # noqa: F401
