from django.urls import path

from apps.planner.api import JobView
from apps.planner.model_files.api import OnnxView
from apps.planner.outcomes.api import EstimateView
from apps.planner.sweep_runs.api import SweepView

urlpatterns = [
    path("plan/estimates/<uuid:uuid>/", EstimateView.as_view(), name="api-plan-estimate"),
    path("plan/job/", JobView.as_view(), name="api-plan-job"),
    path("plan/onnx/", OnnxView.as_view(), name="api-plan-onnx"),
    path("plan/sweep/", SweepView.as_view(), name="api-plan-sweep"),
]
