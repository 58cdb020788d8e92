from django.urls import path

from apps.carbon.api import ConfigView, ExplainView, FiguresView
from apps.carbon.greener_hours.api import GreenerHoursView

urlpatterns = [
    path("config/", ConfigView.as_view(), name="api-config"),
    path("figures/", FiguresView.as_view(), name="api-figures"),
    path("explain/", ExplainView.as_view(), name="api-explain"),
    path("greener-hours/", GreenerHoursView.as_view(), name="api-greener-hours"),
]
