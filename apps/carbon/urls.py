from django.urls import path

from apps.carbon.api import ConfigView, ExplainView, FiguresView
from apps.carbon.keep_api import KeepView

urlpatterns = [
    path("config/", ConfigView.as_view(), name="api-config"),
    path("figures/", FiguresView.as_view(), name="api-figures"),
    path("explain/", ExplainView.as_view(), name="api-explain"),
    path("assets/<int:asset>/keep/", KeepView.as_view(), name="api-keep"),
]
