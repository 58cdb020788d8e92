"""Address of the search."""

from django.urls import path

from apps.dashboard.search import views

urlpatterns = [path("search/", views.search, name="search")]
