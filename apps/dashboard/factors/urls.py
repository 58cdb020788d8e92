"""URLs of emission factors and of the lab's basis."""

from django.urls import path

from apps.dashboard.factors import views

urlpatterns = [
    path("factors/", views.factors, name="factors"),
    path("factors.csv", views.factors_csv, name="factors-csv"),
    path("factors/<slug:zone>/", views.zone, name="factor-zone"),
    path("factors/<slug:zone>/hours.csv", views.hours_csv, name="factor-hours-csv"),
    path("settings/basis/", views.basis, name="lab-basis"),
]
