"""Addresses of billing exports."""

from django.urls import path

from apps.dashboard.billing import views

urlpatterns = [
    path("billing/", views.billing, name="billing"),
    path("billing/<uuid:uuid>/", views.file, name="billing-file"),
    path("billing/<uuid:uuid>/accounts/", views.accounts, name="billing-accounts"),
    path("billing/months/<int:pk>/", views.month, name="billing-month"),
    path("billing/months/<int:pk>.csv", views.month_csv, name="billing-month-csv"),
]
