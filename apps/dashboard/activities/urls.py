"""Addresses of activities."""

from django.urls import path

from apps.dashboard.activities import import_views, recurring_views, views

urlpatterns = [
    path("activities/", views.activities, name="activities"),
    path("activities.csv", views.activities_csv, name="activities-csv"),
    path("activities/add/<str:kind>/", views.add, name="activity-add"),
    path("activities/<uuid:uuid>/", views.activity, name="activity"),
    path("activities/recurring/", recurring_views.recurring_list, name="recurring-activities"),
    path(
        "activities/recurring/<uuid:uuid>/",
        recurring_views.recurring_activity,
        name="recurring-activity",
    ),
    path("activities/import/", import_views.files, name="activity-imports"),
    path("activities/import/<uuid:uuid>/", import_views.file, name="activity-import"),
    path(
        "activities/import/<uuid:uuid>/mapping/",
        import_views.mapping,
        name="activity-import-mapping",
    ),
    path(
        "activities/import/<uuid:uuid>/errors.csv",
        import_views.bad_rows_csv,
        name="activity-import-csv",
    ),
]
