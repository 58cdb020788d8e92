"""Addresses of the page Share a GPU."""

from django.urls import path

from apps.dashboard.planner.sharing import views

urlpatterns = [
    path("", views.sharing, name="planner-sharing"),
    path("plans.csv", views.sharing_csv, name="planner-sharing-csv"),
]
