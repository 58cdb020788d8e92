"""Addresses of electricity prices."""

from django.urls import path

from apps.dashboard.prices import views

urlpatterns = [path("sites/<int:pk>/prices/", views.site_prices, name="site-prices")]
