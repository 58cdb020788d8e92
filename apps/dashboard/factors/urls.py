"""URLs of emission factors, their import, and the lab's basis."""

from django.urls import path

from apps.dashboard.factors import import_views, views

urlpatterns = [
    path("factors/", views.factors, name="factors"),
    path("factors.csv", views.factors_csv, name="factors-csv"),
    path("factors/import/", import_views.factors_import, name="factors-import"),
    path("factors/import/<uuid:uuid>/", import_views.factor_file, name="factor-file"),
    path("factors/<slug:zone>/", views.zone, name="factor-zone"),
    path("factors/<slug:zone>/hours.csv", views.hours_csv, name="factor-hours-csv"),
    path("settings/basis/", views.basis, name="lab-basis"),
]
