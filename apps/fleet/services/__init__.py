"""Writes of fleet: sites and their dated facts, placements of nodes, enrolment, node overhead."""

from apps.fleet.services.dated_facts import enqueue_site_updates
from apps.fleet.services.nodes import (
    correct_place,
    enrol_node,
    issue_enrolment_code,
    move_node,
    register_node,
    rename_node,
    rotate_tokens,
    set_static_power,
    undo_move,
)
from apps.fleet.services.retirement import restore_node, retire_node
from apps.fleet.services.sites import (
    check_currency,
    correct_pue,
    correct_zone,
    create_site,
    delete_site,
    rename_site,
    set_control,
    set_price,
    set_pue,
    set_zone,
    withdraw_site_fact,
)

__all__ = [
    "check_currency",
    "correct_place",
    "correct_pue",
    "correct_zone",
    "create_site",
    "delete_site",
    "enqueue_site_updates",
    "enrol_node",
    "issue_enrolment_code",
    "move_node",
    "register_node",
    "rename_node",
    "rename_site",
    "restore_node",
    "retire_node",
    "rotate_tokens",
    "set_control",
    "set_price",
    "set_pue",
    "set_static_power",
    "set_zone",
    "undo_move",
    "withdraw_site_fact",
]
