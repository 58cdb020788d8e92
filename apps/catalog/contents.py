"""Parts that the embodied carbon of a whole machine contains, so that they are not counted twice.

A part is a kind of hardware (gpu, cpu, storage) or memory. A figure of a machine contains what is
usual for its kind, unless ``data/contents.csv`` lists it. A computed figure contains its
configuration. An estimate of one's own is not known to contain anything.
"""

import csv
from functools import cache

from apps.catalog.choices import HardwareKind
from apps.catalog.models import EmbodiedFigure
from apps.catalog.packs import DATA
from apps.catalog.server_configuration import contents_of_source

MEMORY = "memory"
LABELS = {"gpu": "GPUs", "cpu": "CPUs", "storage": "disks", MEMORY: "memory"}
_MACHINES = {HardwareKind.SERVER, HardwareKind.WORKSTATION, HardwareKind.LAPTOP}
_USUAL = frozenset({"cpu", "storage", MEMORY})


@cache
def _listed() -> dict[tuple[str, str], frozenset[str]]:
    """Return the contents of the figures that are listed, by kind and name of the model."""
    with (DATA / "contents.csv").open(newline="", encoding="utf-8") as file:
        return {
            (row["kind"], row["name"]): frozenset(filter(None, row["contents"].split(";")))
            for row in csv.DictReader(file)
        }


def contents_of(figure: EmbodiedFigure | None, source: str) -> frozenset[str]:
    """Return the parts that an embodied value contains, by its figure, else by its source."""
    if figure is None:
        return contents_of_source(source)
    model = figure.model
    listed = _listed().get((model.kind, model.name))
    if listed is not None:
        return listed
    return _USUAL if model.kind in _MACHINES else frozenset()
