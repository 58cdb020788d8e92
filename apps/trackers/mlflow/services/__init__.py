"""Writes of MLflow: its servers, what is read of them, energy from watts, verdicts written back."""
