"""Energy of a node: that of its GPUs, and of the rest. Pure.

Times are in µs, energies in mJ, power in mW.
"""

from dataclasses import replace
from fractions import Fraction

from apps.core.units import PPM
from apps.planner.formulas.ranges import Range, around, divide, rounded, times_or_divided
from apps.planner.formulas.time_and_energy import Figures

# MLPerf Training v4.0: nodes use 1.22 to 1.29 × the rated power of their GPUs. On other nodes this
# is a guess.
_REST_OF_RATED_PPM = 250_000
_REST_SPREAD = times_or_divided(2_000_000)


def rest_power(rated_mw: int, gpus: int) -> Range:
    """Return the power of a node outside of its GPUs, where it is not measured: 25 % of the rated
    power of the GPUs in use, ×÷2.
    """
    return around(divide(rated_mw * gpus * _REST_OF_RATED_PPM, PPM), _REST_SPREAD)


def measured_rest_power(energy_mj: int, covered_us: int, share: Fraction) -> Range:
    """Return the share of a job in the mean power of a node outside of its GPUs. The mean includes
    hours without a job, so the range is ×÷2.
    """
    return around(rounded(Fraction(energy_mj * PPM, covered_us) * share), _REST_SPREAD)


def node_energy(gpu_energy_mj: Range, time_us: Range, rest_mw: Range) -> Range:
    """Return the energy of a node: its GPUs, and the power of its rest × time. Both grow with time,
    so the ends add up.
    """
    low, likely, high = (
        gpu + divide(time * rest, PPM)
        for gpu, time, rest in (
            (gpu_energy_mj.low, time_us.low, rest_mw.low),
            (gpu_energy_mj.likely, time_us.likely, rest_mw.likely),
            (gpu_energy_mj.high, time_us.high, rest_mw.high),
        )
    )
    return Range(low, likely, high)


def with_node_energy(figures: Figures, rest_mw: Range | None) -> Figures:
    """Return the figures with the energy of the node, where it is not measured itself and the
    energy of the GPUs is known. ``rest_mw``: power of the node outside of its GPUs, None: unknown;
    the facts name it.
    """
    gpu = figures.gpu_energy_mj
    if figures.node_energy_mj is not None or gpu is None or rest_mw is None:
        return figures
    return replace(
        figures,
        node_energy_mj=node_energy(gpu, figures.time_us, rest_mw),
        facts={**figures.facts, "rest_mw": rest_mw.likely},
    )
