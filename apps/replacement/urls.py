from django.urls import path

from apps.replacement.api import ReplacementView

urlpatterns = [path("assets/<int:asset>/keep/", ReplacementView.as_view(), name="api-keep")]
