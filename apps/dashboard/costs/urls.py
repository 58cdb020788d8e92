"""Addresses of costs."""

from django.urls import path

from apps.dashboard.costs import views

urlpatterns = [
    path("costs/", views.costs, name="costs"),
    path("costs/costs.csv", views.costs_csv, name="costs-csv"),
]
