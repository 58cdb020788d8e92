"""The closed lists of fleet."""

from django.db.models import TextChoices


class SiteKind(TextChoices):
    WORKSTATION = "workstation", "Office workstation"
    MACHINE_ROOM = "machine_room", "Machine room"
    DATA_CENTRE = "data_centre", "Data centre"
    DECLARED = "declared", "Elsewhere (declared)"


class DeviceKind(TextChoices):
    GPU = "gpu", "GPU"
    MIG = "mig", "MIG instance"
    CPU = "cpu", "CPU package"
    DRAM = "dram", "DRAM"
    METER = "meter", "Node meter"
    HOST = "host", "Rest of the node"
    STORAGE = "storage", "Storage"
    DECLARED = "declared", "Declared use"


# PUE of a site nobody measured: design default for an unknown machine room (Uptime Institute's survey mean, 2024: 1.56);
# an office workstation has no machine-room cooling.
DEFAULT_PUE_PPM = {
    SiteKind.WORKSTATION: 1_000_000,
    SiteKind.MACHINE_ROOM: 1_560_000,
    SiteKind.DATA_CENTRE: 1_560_000,
    SiteKind.DECLARED: 1_000_000,
}
