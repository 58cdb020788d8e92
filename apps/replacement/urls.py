from django.urls import path

from apps.replacement.api import KeepView

urlpatterns = [path("assets/<int:asset>/keep/", KeepView.as_view(), name="api-keep")]
