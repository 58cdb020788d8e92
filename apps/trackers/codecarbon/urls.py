from django.urls import path

from apps.trackers.codecarbon.api import codecarbon

urlpatterns = [
    path("codecarbon/<path:rest>", codecarbon, name="codecarbon"),
]
