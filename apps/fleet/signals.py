"""Signals of fleet."""

from django.dispatch import Signal

fleet_node_enrolled = Signal()  # node, project, by, now: a node of a fleet token with a project
