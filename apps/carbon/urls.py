from django.urls import path

from apps.carbon.api import ConfigView, ExplainView, FiguresView

urlpatterns = [
    path("config/", ConfigView.as_view(), name="api-config"),
    path("figures/", FiguresView.as_view(), name="api-figures"),
    path("explain/", ExplainView.as_view(), name="api-explain"),
]
