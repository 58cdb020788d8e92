"""Addresses of saved estimates."""

from django.urls import path

from apps.dashboard.planner.estimates import views

urlpatterns = [
    path("", views.estimates, name="planner-estimates"),
    path("save/", views.save, name="planner-save"),
    path("<uuid:uuid>/", views.estimate, name="planner-estimate"),
]
