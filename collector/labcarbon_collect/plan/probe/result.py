"""The result of a probe, as JSON and as text. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from labcarbon_collect.figure_text import energy_text
from labcarbon_collect.plan.probe.power_samples import CPU, GPU, NODE
from labcarbon_collect.plan.probe.runner import Probe
from labcarbon_collect.plan.probe.statistics import (
    MILLION,
    PowerFigures,
    Range,
    StepFigures,
    StepSeries,
    Whole,
    divide,
    estimate_whole,
    measure_steps,
    measured_from_us,
)
from labcarbon_collect.plan.probe.step_series import evaluation_marks, find_steps, sampled_series
from labcarbon_collect.plan.text import bytes_text

VERSION = 1
RUN = "run"
_TOLERANCE_PPM = 20_000  # the last interval of a measurement may be incomplete
_MAX_CHANGED = 20


@dataclass(frozen=True)
class TotalWork:
    """The work of the whole training, as stated by the person."""

    steps: Optional[int] = None
    epochs: Optional[int] = None
    steps_per_epoch: Optional[int] = None


@dataclass(frozen=True)
class ProbeResult:
    """Figures of a probe. ``missing``: why there is no estimate of the whole, "" if there is one.
    ``notes``: assumptions and limits.
    """

    probe: Probe
    warm_up_us: int
    measured_us: int
    series: Optional[StepSeries]
    steps: Optional[StepFigures]
    power: Dict[str, PowerFigures]
    whole: Optional[Whole]
    missing: str
    notes: Tuple[str, ...]

    @property
    def has_failed(self) -> bool:
        """Whether the command ended with an error before the probe ended it."""
        return self.probe.ended_itself and self.probe.exit_status.exit_code != 0


def compute_result(probe: Probe, work: TotalWork) -> ProbeResult:
    """Return the figures of a probe."""
    seen, timing = probe.observations, probe.options.timing
    sampled = sampled_series(
        seen.totals,
        probe.power.gauges(),
        from_us=seen.started_us + timing.warm_up_us,
        interval_us=timing.sample_us,
        gauge_interval_us=timing.poll_us,
    )
    series = find_steps(probe.reports, probe.lines, sampled)
    from_us = measured_from_us(
        series,
        started_us=seen.started_us,
        warm_up_us=timing.warm_up_us,
        ended_us=seen.ended_us,
    )
    measured_us = max(0, seen.ended_us - from_us)
    steps = None
    if series is not None:
        marks_us = evaluation_marks(probe.lines)
        steps = measure_steps(
            series, started_us=seen.started_us, from_us=from_us, evaluation_marks_us=marks_us
        )
    power = _power(probe, from_us)
    total_steps, epoch_steps, notes = _total_steps(work, series)
    missing = _missing(probe, measured_us, series, steps, total_steps)
    whole = None
    if not missing and steps is not None and total_steps is not None:
        whole = estimate_whole(
            steps, power.get(RUN), total_steps=total_steps, epoch_steps=epoch_steps
        )
        notes.extend(_whole_notes(steps, power, has_later=total_steps > (epoch_steps or 0)))
    return ProbeResult(
        probe,
        min(from_us, seen.ended_us) - seen.started_us,
        measured_us,
        series,
        steps,
        power,
        whole,
        missing,
        tuple(notes),
    )


def to_json(result: ProbeResult) -> Dict[str, Any]:
    """Return the result as it is sent to the server, under the key ``probe``."""
    probe, seen = result.probe, result.probe.observations
    memory_mib = probe.power.gpu_memory_mib()
    steps: Optional[Dict[str, Any]] = None
    if result.series is not None and result.steps is not None:
        steps = {key: value for key, value in asdict(result.steps).items() if key != "evaluations"}
        steps["source"] = result.series.source
        steps["name"] = result.series.name
        steps["epoch_steps"] = result.series.epoch_steps
        steps["evaluations_us"] = [item.length_us for item in result.steps.evaluations]
    return {
        "probe": {
            "version": VERSION,
            "run": probe.run,
            "duration_us": seen.ended_us - seen.started_us,
            "warm_up_us": result.warm_up_us,
            "measured_us": result.measured_us,
            "ended_by": seen.how_ended,
            "exit_code": probe.exit_status.exit_code,
            "is_interrupted": probe.is_interrupted,
            "energy_mj": probe.energy_mj,
            "steps": steps,
            "power_mw": {
                kind: {"mean": power.mean_mw, "p10": power.p10_mw, "p90": power.p90_mw}
                for kind, power in result.power.items()
            },
            "process_memory_bytes": seen.memory_peak_bytes or None,
            "gpu_memory_mib": None if memory_mib is None else memory_mib[1],
            "gpu_memory_before_mib": None if memory_mib is None else memory_mib[0],
            "whole": None if result.whole is None else asdict(result.whole),
            "missing": result.missing,
            "notes": list(result.notes),
            "changed_files": list(probe.changed[:_MAX_CHANGED]),
            "changed_file_count": len(probe.changed),
            "left_behind": [member.pid for member in seen.left_behind],
        }
    }


def format_lines(result: ProbeResult) -> Iterator[str]:
    """Yield the result as text."""
    probe, seen = result.probe, result.probe.observations
    yield (
        f"Measured {_seconds(result.measured_us)} after a warm-up of "
        f"{_seconds(result.warm_up_us)}. {_ending_text(probe)}"
    )
    yield from _step_lines(result)
    for kind, name in ((GPU, "GPU"), (CPU, "CPU"), (NODE, "Node"), (RUN, "This command")):
        power = result.power.get(kind)
        if power is not None:
            yield (
                f"{name}: {_watts(power.mean_mw)} W on average "
                f"(P10–P90 {_watts(power.p10_mw)} to {_watts(power.p90_mw)} W)"
            )
    if RUN not in result.power:
        yield "Power of this command: unknown"
    if seen.memory_peak_bytes:
        yield f"Peak memory of the processes: {bytes_text(seen.memory_peak_bytes)}"
    memory_mib = probe.power.gpu_memory_mib()
    if memory_mib is not None:
        yield f"Peak memory of the GPUs: {memory_mib[1]} MiB ({memory_mib[0]} MiB at the start)"
    if result.whole is not None:
        yield from _whole_lines(result.whole)
    else:
        yield f"No estimate of the whole training: {result.missing}"
    yield from result.notes
    yield from _file_lines(probe)


def _power(probe: Probe, from_us: int) -> Dict[str, PowerFigures]:
    to_us = probe.observations.ended_us
    power = {
        kind: probe.power.power(kind, from_us=from_us, to_us=to_us) for kind in (GPU, CPU, NODE)
    }
    power[RUN] = probe.power.run_power(from_us=from_us, to_us=to_us)
    return {kind: figures for kind, figures in power.items() if figures is not None}


def _total_steps(
    work: TotalWork, series: Optional[StepSeries]
) -> Tuple[Optional[int], Optional[int], List[str]]:
    """Return the steps of the training and of an epoch, with the assumptions."""
    counted = series.epoch_steps if series is not None else None
    epoch_steps = work.steps_per_epoch or counted
    if work.steps is not None:
        is_epoch = counted is not None and work.steps > counted
        return work.steps, work.steps_per_epoch or (counted if is_epoch else None), []
    if work.epochs is None or epoch_steps is None:
        return None, epoch_steps, []
    notes = []
    if work.steps_per_epoch is None and series is not None and not series.restarts:
        notes.append(
            f"An epoch is taken as {epoch_steps} steps, the end of the counter {series.name}. If "
            "it counts the whole training, give --total-steps instead."
        )
    return work.epochs * epoch_steps, epoch_steps, notes


def _missing(
    probe: Probe,
    measured_us: int,
    series: Optional[StepSeries],
    steps: Optional[StepFigures],
    total_steps: Optional[int],
) -> str:
    """Return why the whole training is not estimated, or ""."""
    needed_us = probe.options.timing.needed_us
    if probe.ended_itself:
        if probe.exit_status.exit_code:
            return "the command failed."
        return "the command ended by itself, so this run is the whole."
    if series is None:
        return (
            "no steps were recognised. Print a counter such as step 12/500, or report steps with "
            "labcarbon_collect.track and run.log(step)."
        )
    if steps is None or measured_us * MILLION < needed_us * (MILLION - _TOLERANCE_PPM):
        return (
            f"{_seconds(measured_us)} past the warm-up are too few. Repeat with a longer --probe, "
            f"so that {_seconds(needed_us)} remain."
        )
    if total_steps is None:
        return "the total work is unknown. Give --total-steps N, or --epochs N --steps-per-epoch N."
    return ""


def _whole_notes(
    steps: StepFigures, power: Dict[str, PowerFigures], *, has_later: bool
) -> Iterator[str]:
    if RUN not in power:
        yield "The energy is unknown, because the power of this command was not measured."
    if not steps.evaluations:
        yield "No evaluation was seen. If the training evaluates, it takes longer."
    elif steps.evaluation_steps is None:
        yield "How often the training evaluates is unknown. Evaluations are not included."
    if steps.first_epoch_us is None and has_later:
        yield "Only the first epoch was measured. Later ones are often faster, which P10 includes."
    yield "An early stop makes the training shorter than estimated."


def _ending_text(probe: Probe) -> str:
    if probe.ended_itself:
        return f"The command ended by itself with exit code {probe.exit_status.exit_code}."
    return "The probe ended the command."


def _step_lines(result: ProbeResult) -> Iterator[str]:
    steps, series = result.steps, result.series
    if steps is None or series is None:
        yield "Steps: none recognised" if series is None else f"Steps: too few ({series.name})"
        return
    spread = ""
    if steps.p10_us is not None and steps.p90_us is not None:
        spread = f" (P10–P90 {_step_text(steps.p10_us)} to {_step_text(steps.p90_us)})"
    yield f"Steps: {steps.seen} seen, {steps.measured} measured, by {series.name}"
    yield f"Time per step: {_step_text(steps.p50_us)}{spread}, mean {_step_text(steps.mean_us)}"
    if steps.evaluations:
        lengths = ", ".join(_seconds(item.length_us) for item in steps.evaluations[:5])
        every = f", every {steps.evaluation_steps} steps" if steps.evaluation_steps else ""
        yield f"Evaluations: {len(steps.evaluations)} of {lengths}{every}"


def _whole_lines(whole: Whole) -> Iterator[str]:
    duration = whole.duration_us
    evaluations = f" and {whole.evaluations} evaluations" if whole.evaluations else ""
    yield (
        f"Whole training of {whole.steps} steps{evaluations}: {_duration(duration.p50)} "
        f"(P10–P90 {_duration(duration.p10)} to {_duration(duration.p90)})"
    )
    if whole.energy_mj is not None:
        yield f"Energy: {_energy_range(whole.energy_mj)}"
    yield f"Wall time to reserve: {_duration(whole.reserve_us)}"


def _energy_range(energy_mj: Range) -> str:
    return (
        f"{energy_text(energy_mj.p50)} (P10–P90 {energy_text(energy_mj.p10)} to "
        f"{energy_text(energy_mj.p90)})"
    )


def _file_lines(probe: Probe) -> Iterator[str]:
    if probe.missing_file:
        yield (
            f"The command did not find {probe.missing_file} in the scratch folder. To run it in "
            "the current folder, use --in-place."
        )
    if probe.changed:
        yield f"Changed files in the current folder: {len(probe.changed)}"
        for path in probe.changed[:_MAX_CHANGED]:
            yield f"  {path}"
    if not probe.is_survey_complete:
        yield "The current folder has too many files to list all changes."
    if probe.observations.left_behind:
        pids = ", ".join(str(member.pid) for member in probe.observations.left_behind)
        yield f"These processes could not be ended: {pids}"


def _seconds(length_us: int) -> str:
    tenths = divide(length_us, 100_000)
    return f"{tenths // 10}.{tenths % 10} s"


def _duration(length_us: int) -> str:
    seconds = divide(length_us, MILLION)
    if seconds < 120:
        return f"{seconds} s"
    minutes = divide(seconds, 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _step_text(length_us: int) -> str:
    """Return the time of a step in s, or in ms below one second."""
    if length_us < MILLION:
        return f"{length_us / 1000:.1f} ms"
    return f"{length_us / MILLION:.2f} s"


def _watts(power_mw: int) -> str:
    return f"{power_mw / 1000:.0f}" if power_mw >= 10_000 else f"{power_mw / 1000:.1f}"
