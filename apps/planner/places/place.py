"""A place where a job could run, and what is needed to compare places."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from apps.carbon.greener_hours.starts import Start
from apps.planner.calibrations import Calibrations
from apps.planner.choices import Basis, Precision
from apps.planner.formulas.places import Fit, Reference
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import PastOperations
from apps.planner.places.cards import Card


class PlaceKind(StrEnum):
    """Kind of a place."""

    NODE = "node"
    PARTITION = "partition"
    CLOUD = "cloud"


@dataclass(frozen=True)
class JobNeeds:
    """What is known of a planned training.

    - ``memory_bytes``: need of each GPU. ``gpus``: number that the training uses.
    - ``flops``: of the whole training. ``is_large``: the model is a large net. ``stops_early``: it
      can end before.
    - ``reference``: time and energy of the whole training on ``reference_card``, from own runs or a
      probe. It needs as many GPUs as ``gpus``.
    - ``own_operations``: the lab's own runs of this kind of model by match key of their card.
    - ``calibrations``: of the lab. The reference is widened already.
    - ``samples``: of the whole training, all epochs. ``benchmark``: of MLPerf, for samples per
      joule without own runs.
    """

    memory_bytes: Range | None = None
    gpus: int = 1
    flops: int | None = None
    is_large: bool = False
    stops_early: bool = False
    precision: Precision = Precision.FP32
    reference: Reference | None = None
    reference_card: str = ""
    own_operations: Mapping[str, Sequence[PastOperations]] = field(default_factory=dict)
    calibrations: Calibrations = field(default_factory=dict)
    samples: int | None = None
    benchmark: str = "resnet50"


@dataclass(frozen=True)
class CloudChoice:
    """Which cloud instances are listed: of a provider ('': all), in regions (empty: those in which
    the lab was billed, else those in the grid zones of its sites).
    """

    provider: str = ""
    regions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Load:
    """GPUs of a place by their last minutes. Silent: no window arrived."""

    free: int = 0
    busy: int = 0
    silent: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(self.free + other.free, self.busy + other.busy, self.silent + other.silent)


@dataclass(frozen=True)
class Place:
    """A place with the figures of a job there. None is unknown; ``reasons`` has a sentence for each
    such field, by its name.

    - ``key``: stable, for addresses and tests. ``name``: node, partition or instance type.
      ``where``: site or region. ``node_uuid``: of a node, for its page.
    - ``card``: its GPU; ``gpus``: their number at the place; ``gpus_used``: by the job.
    - ``load``: None for the cloud, whose load is unknown.
    - ``basis``: what time and energy rest on. ``reference_card``: the other card they were scaled
      from, '' for none.
    - ``time_us``, ``gpu_energy_mj``, ``node_energy_mj``: P10, likely, P90. ``is_rest_measured``:
      whether the power outside of the GPUs was measured on the node.
    - ``location_ug``, ``market_ug``: of the facility energy of the node. ``factor_name``: of the
      location-based factor.
    - ``embodied_ug``: share of the hardware for these hours.
    - ``cost_ucurrency``: electricity at own places, price of the instance in the cloud.
    - ``usamples_per_joule``: millionths; ``efficiency_source``: the basis if the lab measured it,
      else benchmark and scenario of MLPerf; '' for none.
    - ``starts_now``, ``greenest_start``: a start in this hour, and the greenest one.
    - ``greener_older``: key of the greenest place with an older card that emits less.
    """

    key: str
    kind: PlaceKind
    name: str
    where: str
    card: Card
    gpus: int
    gpus_used: int
    load: Load | None = None
    node_uuid: UUID | None = None
    provider: str = ""
    zone: str = ""
    fit: Fit | None = None
    basis: Basis = Basis.NONE
    reference_card: str = ""
    time_us: Range | None = None
    gpu_energy_mj: Range | None = None
    node_energy_mj: Range | None = None
    is_rest_measured: bool = False
    pue_ppm: int | None = None
    ug_per_kwh: int | None = None
    factor_name: str = ""
    location_ug: Range | None = None
    market_ug: Range | None = None
    embodied_ug: Range | None = None
    cost_ucurrency: Range | None = None
    currency: str = ""
    usamples_per_joule: Range | None = None
    efficiency_source: str = ""
    starts_now: Start | None = None
    greenest_start: Start | None = None
    greener_older: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Places:
    """All places. ``cloud_missing``: why there is no cloud instance, '' if there are some.
    ``left_out``: number of cloud instances beyond the limit. ``nodes_without_gpu``: not listed.
    """

    places: list[Place]
    cloud_missing: str
    left_out: int
    nodes_without_gpu: int
