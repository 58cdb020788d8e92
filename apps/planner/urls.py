from django.urls import path

from apps.planner.api import JobView
from apps.planner.model_files.api import OnnxView

urlpatterns = [
    path("plan/job/", JobView.as_view(), name="api-plan-job"),
    path("plan/onnx/", OnnxView.as_view(), name="api-plan-onnx"),
]
