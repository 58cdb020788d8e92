from django.apps import AppConfig


class TrackersConfig(AppConfig):
    name = "apps.trackers"
