"""Writes of the catalogue: shipped data, and a lab's own models and figures."""

from apps.catalog.services.custom_models import add_figure, add_model, retire_model, withdraw_figure
from apps.catalog.services.loader import load_catalogue

__all__ = ["add_figure", "add_model", "load_catalogue", "retire_model", "withdraw_figure"]
