"""Which GPUs have no reading, and since when. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, Iterable, List, Sequence, Tuple, Union

from labcarbon_collect.clock import Clock
from labcarbon_collect.energy.windows import SECOND_US, Anchor
from labcarbon_collect.sources.base import DeviceProblem, Gap, Reading

# Without a reading for this long, the open window of a GPU is closed at its last one.
UNREAD_US = 30 * SECOND_US
SILENT_US = 600 * SECOND_US
# The gap of a silent GPU is declared again with its new end after this time.
DECLARED_AGAIN_US = 3600 * SECOND_US


def is_watched(device: str) -> bool:
    """Whether a device is a GPU. The meters of processors fail with their source."""
    return device.startswith("gpu:")


class DeviceWatch:
    """The last reading of each GPU that was measured since the machine started."""

    def __init__(self, anchors: Iterable[Anchor], boot: str) -> None:
        self._seen: Dict[str, Union[Clock, Reading]] = {
            anchor.device: Clock(anchor.mono_us, anchor.wall_us)
            for anchor in anchors
            if anchor.boot == boot and is_watched(anchor.device)
        }
        self._names: Dict[str, str] = {}
        self._closed: Dict[str, Union[Clock, Reading]] = {}
        self._declared_us: Dict[str, int] = {}
        self._lost_us: Dict[Tuple[str, str], int] = {}  # monotonic start of each reported loss

    def add(self, reading: Reading) -> None:
        """Add a reading."""
        if is_watched(reading.device):
            self._seen[reading.device] = reading
            if self._declared_us:
                self._declared_us.pop(reading.device, None)

    def is_complete(self, clock: Clock) -> bool:
        """Whether every GPU has a recent reading."""
        return all(
            clock.monotonic_us - last.monotonic_us < UNREAD_US for last in self._seen.values()
        )

    def set_names(self, names: Dict[str, str]) -> None:
        """Remember the names of devices for the time in which their source has failed."""
        self._names.update(names)

    def take_unread(self, clock: Clock, is_resting: Callable[[str], bool]) -> List[str]:
        """Return the GPUs whose open windows must be closed, each one time per loss.

        ``is_resting``: the GPU responds, and its next reading includes the energy.
        """
        unread = []
        for device, last in self._seen.items():
            is_unread = clock.monotonic_us - last.monotonic_us >= UNREAD_US
            if is_unread and self._closed.get(device) != last and not is_resting(device):
                self._closed[device] = last
                unread.append(device)
        return unread

    def take_gaps(
        self,
        clock: Clock,
        anchors: Dict[str, Anchor],
        is_asleep: Callable[[str], bool],
        *,
        is_last: bool = False,
    ) -> List[Gap]:
        """Return the gaps of silent GPUs up to now: at the tenth minute, then every hour, and at
        the end (``is_last``).
        """
        gaps = []
        for device, last in self._seen.items():
            silent_us = clock.monotonic_us - last.monotonic_us
            declared_us = self._declared_us.get(device)
            is_due = is_last or declared_us is None or silent_us - declared_us >= DECLARED_AGAIN_US
            anchor = anchors.get(device)
            if silent_us < SILENT_US or not is_due or anchor is None or is_asleep(device):
                continue
            self._declared_us[device] = silent_us
            to_us = max(last.wall_us + silent_us, anchor.wall_us + 1)  # the wall clock may step
            gaps.append(Gap(device, anchor.epoch, anchor.wall_us, to_us, "lost"))
        return gaps

    def problems(
        self, clock: Clock, reported: Sequence[DeviceProblem], is_asleep: Callable[[str], bool]
    ) -> Tuple[DeviceProblem, ...]:
        """Return the problems that sources report, and the GPUs that no source reports any more."""
        self._lost_us = {
            _key(problem): self._lost_since_us(problem, clock)
            for problem in reported
            if problem.state == "lost"
        }
        problems = [
            replace(problem, state="silent")
            if clock.monotonic_us - self._lost_us.get(_key(problem), clock.monotonic_us)
            >= SILENT_US
            else problem
            for problem in reported
        ]
        known = {problem.device for problem in reported if problem.state == "lost"}
        for device, last in self._seen.items():
            unread_us = clock.monotonic_us - last.monotonic_us
            if device in known or unread_us < UNREAD_US or is_asleep(device):
                continue
            state = "silent" if unread_us >= SILENT_US else "lost"
            name = self._names.get(device, device)
            problems.append(DeviceProblem(device, name, state, "it has no reading", last.wall_us))
        return tuple(problems)

    def _lost_since_us(self, problem: DeviceProblem, clock: Clock) -> int:
        """Return the monotonic time since which a GPU is lost. Its wall time may be wrong."""
        last = self._seen.get(problem.device)
        if last is not None:
            return last.monotonic_us
        return self._lost_us.get(_key(problem), clock.monotonic_us)


def _key(problem: DeviceProblem) -> Tuple[str, str]:
    return problem.device, problem.name
