"""Writes of the catalogue: loading what is shipped, and a lab's own models and figures."""

from apps.catalog.services.loading import load_catalogue
from apps.catalog.services.own import add_figure, add_model, retire_model, withdraw_figure

__all__ = ["add_figure", "add_model", "load_catalogue", "retire_model", "withdraw_figure"]
