"""Sweeps: many runs that differ in their parameters. Parsers, alternatives and totals. Pure."""
