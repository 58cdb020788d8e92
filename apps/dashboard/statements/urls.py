"""Addresses of statements."""

from django.urls import path

from apps.dashboard.statements import views

urlpatterns = [
    path("statements/", views.statements, name="statements"),
    path("statements/close/", views.close, name="statement-close"),
    path("statements/<int:pk>/", views.statement, name="statement"),
    path("statements/<int:pk>/differences/", views.differences, name="statement-differences"),
    path(
        "statements/<int:pk>/differences.csv",
        views.differences_csv,
        name="statement-differences-csv",
    ),
    path("statements/<int:pk>/print/", views.printout, name="statement-print"),
    path("statements/<int:pk>/statement.json", views.export_json, name="statement-json"),
    path("statements/<int:pk>/statement.csv", views.export_csv, name="statement-csv"),
]
