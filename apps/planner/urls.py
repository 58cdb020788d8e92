from django.urls import path

from apps.planner.model_files.api import OnnxView

urlpatterns = [
    path("plan/onnx/", OnnxView.as_view(), name="api-plan-onnx"),
]
