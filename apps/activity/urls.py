from django.urls import path

from apps.activity.api import ActivitiesView

urlpatterns = [path("activity/", ActivitiesView.as_view(), name="api-activity")]
