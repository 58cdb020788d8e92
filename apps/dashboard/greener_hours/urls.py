"""Addresses of the greener hours."""

from django.urls import path

from apps.dashboard.greener_hours import views

urlpatterns = [
    path("greener-hours/", views.greener_hours, name="greener-hours"),
    path("greener-hours/hours.csv", views.greener_hours_csv, name="greener-hours-csv"),
]
