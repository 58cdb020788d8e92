from django.urls import path

from apps.fleet.api import EnrolView, LoginView

urlpatterns = [
    path("enrol/", EnrolView.as_view(), name="api-enrol"),
    path("login/", LoginView.as_view(), name="api-login"),
]
