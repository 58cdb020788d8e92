"""Addresses of the projects."""

from django.urls import path

from apps.dashboard.projects import views

urlpatterns = [
    path("projects/", views.projects, name="projects"),
    path("projects/<slug:slug>/", views.project, name="project"),
    path("projects/<slug:slug>/table/", views.project_table, name="project-table"),
    path("projects/<slug:slug>/energy.csv", views.project_csv, name="project-csv"),
]
