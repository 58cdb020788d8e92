"""Formulas of the kinds of activities: inputs → energy with its range, equation and source."""
