"""Addresses of why use changed."""

from django.urls import path

from apps.dashboard.change import views

urlpatterns = [
    path("change/", views.change, name="change"),
    path("change.csv", views.change_csv, name="change-csv"),
]
