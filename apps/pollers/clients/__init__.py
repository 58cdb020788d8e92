"""Clients of NetBox, Snipe-IT and GLPI. They send GET requests only."""

from collections.abc import Callable

from apps.pollers.choices import System
from apps.pollers.clients.connection import Connection, PollError, RemoteRow
from apps.pollers.clients.glpi import read_glpi
from apps.pollers.clients.netbox import read_netbox
from apps.pollers.clients.snipe_it import read_snipe_it

__all__ = ["READERS", "Connection", "PollError", "RemoteRow"]

READERS: dict[System, Callable[[Connection], list[RemoteRow]]] = {
    System.NETBOX: read_netbox,
    System.SNIPE_IT: read_snipe_it,
    System.GLPI: read_glpi,
}
