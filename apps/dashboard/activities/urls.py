"""Addresses of activities."""

from django.urls import path

from apps.dashboard.activities import views

urlpatterns = [
    path("activities/", views.activities, name="activities"),
    path("activities.csv", views.activities_csv, name="activities-csv"),
    path("activities/add/<str:kind>/", views.add, name="activity-add"),
    path("activities/<uuid:uuid>/", views.activity, name="activity"),
]
