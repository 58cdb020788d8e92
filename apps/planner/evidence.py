"""Reads of what a lab knows about a planned training. Estimates of the training and of its
alternatives are computed from one reading.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from apps.accounts.models import Lab
from apps.catalog.choices import HardwareKind
from apps.catalog.matching import match_key
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import model_of
from apps.core.units import hour_of
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device
from apps.fleet.selectors import placement_of
from apps.planner.calibrations import Calibrations, calibrations_of
from apps.planner.choices import Precision
from apps.planner.formulas.node_energy import rest_power
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import Card
from apps.planner.job_input import JobInput, Place
from apps.planner.past_runs import (
    FamilyRun,
    MeasuredEstimate,
    read_family,
    read_measured_estimates,
)
from apps.planner.places.own_nodes import rest_of_node
from apps.planner.site_conditions import SiteConditions, site_conditions
from apps.replacement.performance import performance_of
from apps.runs.match_keys import Parts
from apps.runs.models import Fingerprint
from apps.runs.services.fingerprints import ignored_params_of_project, parts_of, row_from_payload


@dataclass(frozen=True)
class Evidence:
    """What estimates of one place and fingerprint rest on. ``fingerprint`` and its compared
    ``parts`` None: there is none. ``params``: known parameters. ``card``: name of the GPU, ''
    without one, None unknown.

    What only some bases need is read at its first use, once.
    """

    lab: Lab
    place: Place
    hour: int
    fingerprint: Fingerprint | None
    parts: Parts | None
    params: Mapping[str, Any]
    card: str | None
    conditions: SiteConditions

    @cached_property
    def family(self) -> list[FamilyRun]:
        """Return the finished runs of the family, on the planned card if it is known."""
        if self.parts is None:
            return []
        return read_family(self.lab, self.parts, match_key(self.card) if self.card else None)

    @cached_property
    def calibrations(self) -> Calibrations:
        """Return the calibration of the lab's estimates."""
        return calibrations_of(self.lab)

    @cached_property
    def measured_estimates(self) -> list[MeasuredEstimate]:
        """Return the finished runs with known operations."""
        return read_measured_estimates(self.lab)

    @cached_property
    def _model(self) -> HardwareModel | None:
        return model_of(HardwareKind.GPU, self.card, self.lab) if self.card else None

    @cached_property
    def _rests(self) -> dict[int, Range | None]:
        return {}

    def rest_mw(self, gpus: int) -> Range | None:
        """Return the power of the planned node outside of its GPUs, None if it is unknown."""
        if gpus not in self._rests:
            node = self.place.node
            measured = rest_of_node(node, self.hour, gpus) if node else None
            if measured is None and self._model is not None and self._model.tdp_mw:
                measured = rest_power(self._model.tdp_mw, gpus)
            self._rests[gpus] = measured
        return self._rests[gpus]

    @cached_property
    def _rated(self) -> dict[Precision, Card]:
        model = self._model
        performance = performance_of(model.name) if model else None
        if model is None or performance is None or not model.tdp_mw:
            return {}
        peaks = {
            Precision.FP32: performance.fp32,
            Precision.MIXED: performance.tensor or performance.fp32,
        }
        return {precision: Card(peak, model.tdp_mw) for precision, peak in peaks.items() if peak}

    def rated(self, precision: Precision) -> Card | None:
        """Return the rated figures of the card, None if the catalogue does not have them."""
        return self._rated.get(precision)


def read_evidence(lab: Lab, job: JobInput, now: int) -> Evidence:
    """Return the evidence for a planned training."""
    row, parts, params = _fingerprint(job)
    hour = hour_of(now)
    return Evidence(
        lab=lab,
        place=job.place,
        hour=hour,
        fingerprint=row,
        parts=parts,
        params=params,
        card=_card(job.place),
        conditions=site_conditions(lab, _site_of(job.place, hour), hour),
    )


def _fingerprint(job: JobInput) -> tuple[Fingerprint | None, Parts | None, dict[str, Any]]:
    """Return fingerprint, compared parts and known parameters of the planned run."""
    row = None
    if job.fingerprint is not None:
        row = row_from_payload(job.fingerprint)
    elif job.like_run is not None:
        row = getattr(job.like_run, "fingerprint", None)
    params = dict(job.like_run.params) if job.like_run and not job.fingerprint else {}
    if row is None:
        return None, None, params
    ignored = ignored_params_of_project(job.project.pk if job.project else None)
    return row, parts_of(row, ignored=ignored), {**params, **(row.told or {})}


def _card(place: Place) -> str | None:
    """Return the name of the planned GPU: as stated, else of the node if all its GPUs are equal.
    '' without a GPU, None unknown.
    """
    if place.card is not None or place.node is None:
        return place.card
    devices = Device.objects.filter(node=place.node, kind=DeviceKind.GPU)
    names = {match_key(name): name for name in devices.values_list("name", flat=True)}
    return next(iter(names.values())) if len(names) == 1 else None if names else ""


def _site_of(place: Place, hour: int) -> Any:
    if place.site is not None or place.node is None:
        return place.site
    placement = placement_of(place.node, hour)
    return placement.site if placement else None
