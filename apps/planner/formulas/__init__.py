"""Formulas of estimates before a run: model costs, memory, time and energy. Pure."""
