"""Addresses of the help."""

from django.urls import path

from apps.dashboard.help import views

urlpatterns = [
    path("help/", views.help_index, name="help"),
    path("help/pictures/<slug:name>.png", views.help_picture, name="help-picture"),
    path("help/<path:name>/", views.help_document, name="help-document"),
]
