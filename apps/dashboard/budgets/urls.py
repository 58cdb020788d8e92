"""URLs of budgets."""

from django.urls import path

from apps.dashboard.budgets import views

urlpatterns = [
    path("budgets/", views.budgets, name="budgets"),
    path("budgets/budgets.csv", views.budgets_csv, name="budgets-csv"),
    path("budgets/<int:pk>/", views.budget, name="budget"),
    path("budgets/<int:pk>/days.csv", views.budget_csv, name="budget-csv"),
    path("budgets/<int:pk>/forecasts.csv", views.forecasts_csv, name="budget-forecasts-csv"),
]
