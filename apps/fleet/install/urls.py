from django.urls import path

from apps.fleet.install import views

urlpatterns = [
    path("", views.script, name="install"),
    path("files/", views.index, name="install-files"),
    path("files/<str:name>", views.file, name="install-file"),
]
