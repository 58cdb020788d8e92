from django.urls import path

from apps.planner.api_sweep import SweepView

urlpatterns = [
    path("plan/sweep/", SweepView.as_view(), name="api-plan-sweep"),
]
