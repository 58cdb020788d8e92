"""Sealing in tests, and an independent read of everything that is stored or archived."""

from django.conf import settings

from apps.ingest.archive import ArchivedWindow
from apps.ingest.archive_files import read_block
from apps.ingest.models import EnergyWindow, SealedBlock, SealedHour
from apps.ingest.services.seal import Progress, seal_windows


def seal(before_hour: int) -> Progress:
    """Seal all hours before ``before_hour``."""
    return seal_windows(before_hour=before_hour)


def archived() -> list[ArchivedWindow]:
    """Return all archived windows."""
    return [
        window
        for block in SealedBlock.objects.order_by("pk")
        for window in read_block(
            settings.ARCHIVE_DIR, block.file, block.offset, block.length, bytes(block.sha256)
        )
    ]


def all_energy() -> dict[tuple[int, int], int]:
    """Return {(epoch id, sequence): mJ} of stored and archived windows. No window is archived
    twice, and a window that is both is the same.
    """
    old = archived()
    energy = {(window.epoch_id, window.sequence): window.energy_mj for window in old}
    assert len(energy) == len(old)
    for epoch_id, sequence, energy_mj in EnergyWindow.objects.values_list(
        "epoch_id", "sequence", "energy_mj"
    ):
        assert energy.setdefault((epoch_id, sequence), energy_mj) == energy_mj
    hours = SealedHour.objects.values_list("windows", "energy_mj")
    assert sum(count for count, _ in hours) == len(old)
    assert sum(energy_mj for _, energy_mj in hours) == sum(window.energy_mj for window in old)
    return energy
