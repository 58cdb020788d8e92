from django.urls import path

from apps.trackers.api import RunEnergyView

urlpatterns = [path("runs/<uuid:uuid>/energy/", RunEnergyView.as_view(), name="api-run-energy")]
