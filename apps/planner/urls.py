from django.urls import path

from apps.planner.api import JobView

urlpatterns = [
    path("plan/job/", JobView.as_view(), name="api-plan-job"),
]
