"""Writes of MLflow: servers, imported runs, energy from power, verdict tags."""
