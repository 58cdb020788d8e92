"""Addresses of the setup, sign-in and health checks."""

from django.urls import path

from apps.dashboard.setup import views

urlpatterns = [
    path("setup/", views.setup, name="setup"),
    path("signin/", views.signin, name="sign-in"),
    path("login-code/", views.login_code, name="login-code"),
    path("livez", views.livez, name="livez"),
    path("readyz", views.readyz, name="readyz"),
]
