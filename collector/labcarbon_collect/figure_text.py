"""Formatting of energy (J, Wh, kWh, MWh), emissions (g, kg, t) and shares by quality. Pure.

Figures are integers until the last step.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.lc1.measurements import QUALITY_BY_MEASUREMENT

MJ_PER_WH, UG_PER_G = 3_600_000, 1_000_000
_Units = Sequence[Tuple[int, str]]
_ENERGY: _Units = ((MJ_PER_WH, "Wh"), (1000 * MJ_PER_WH, "kWh"), (1_000_000 * MJ_PER_WH, "MWh"))
_MASS: _Units = ((UG_PER_G, "g"), (1000 * UG_PER_G, "kg"), (1_000_000 * UG_PER_G, "t"))
_JOULE: _Units = ((1000, "J"),)
# µg = mJ × pue_ppm × µg_per_kWh / (3.6·10⁹ mJ/kWh × 10⁶ ppm)
_DIVISOR = 3_600_000_000_000_000
QUALITIES = ("counter", "sampled", "modelled", "declared")


def emission_ug(energy_mj: int, config: Optional[Mapping[str, Any]]) -> Optional[int]:
    """Return the micrograms CO2e of ``energy_mj`` at the site of ``config`` (response of ``GET
    config/``), rounded half up.

    None without a grid zone, or without a factor for it.
    """
    factor, site = (config or {}).get("factor"), (config or {}).get("site")
    if not isinstance(factor, Mapping) or not isinstance(site, Mapping):
        return None
    ug_per_kwh, pue_ppm = factor.get("ug_per_kwh"), site.get("pue_ppm")
    if not isinstance(ug_per_kwh, int) or not isinstance(pue_ppm, int):
        return None
    return (energy_mj * pue_ppm * ug_per_kwh + _DIVISOR // 2) // _DIVISOR


def factor_text(config: Optional[Mapping[str, Any]]) -> str:
    """Return zone, year and edition of the factor, "" without one."""
    factor = (config or {}).get("factor")
    if not isinstance(factor, Mapping):
        return ""
    return f"{factor.get('zone')} {factor.get('year')}, edition {factor.get('edition')}"


def zone_of(config: Optional[Mapping[str, Any]]) -> Optional[str]:
    """Return the grid zone of the node's site, "" for none, None if the server was not asked."""
    if config is None:
        return None
    return str((config.get("site") or {}).get("zone") or "")


def by_quality(by_device: Mapping[str, int], measurement: Mapping[str, str]) -> Dict[str, int]:
    """Return mJ per energy quality (counter, sampled, modelled, declared). Qualities without energy
    are left out.
    """
    totals: Dict[str, int] = {}
    for device, energy_mj in by_device.items():
        quality = QUALITY_BY_MEASUREMENT.get(measurement.get(device, ""), "modelled")
        totals[quality] = totals.get(quality, 0) + energy_mj
    return totals


def energy_text(energy_mj: int) -> str:
    """Return energy in the unit that suits it: "4.21 kWh", "< 0.1 Wh"."""
    return _amount(energy_mj, _ENERGY)


def window_energy_text(energy_mj: int) -> str:
    """Return the energy of one window: in J below 0.1 Wh, where each joule is counted."""
    return _amount(energy_mj, _JOULE if 0 < energy_mj * 10 < MJ_PER_WH else _ENERGY)


def emission_text(emission_ug: int) -> str:
    """Return emissions in the unit that suits them: "1.39 kg CO2e"."""
    return f"{_amount(emission_ug, _MASS)} CO2e"


def _amount(value: int, units: _Units) -> str:
    """Return an integer ≥ 0 in the largest unit in which it is 1.00 or more, three significant
    digits, whole numbers from 100 on. Text of the server is equal.
    """
    size, name = [unit for unit in units if value * 2000 >= unit[0] * 1999 or unit is units[0]][-1]
    if 0 < value * 10 < size:
        return f"< 0.1 {name}"
    return f"{_three_digits(value, size)} {name}"


def _three_digits(value: int, size: int) -> str:
    if not value:
        return "0"
    for decimals in (3, 2, 1, 0):
        number = (value * 10**decimals * 2 + size) // (2 * size)
        if number < 1000:
            break
    whole, rest = divmod(number, 10**decimals)
    digits = f"{whole:,}".replace(",", " ")
    return f"{digits}.{rest:0{decimals}d}" if decimals else digits


def percent(part: int, total: int) -> str:
    """Format a share as a whole percentage, "<1" for a small one above zero."""
    if total <= 0:
        return "0"
    if 0 < part * 100 < total:
        return "<1"
    return str((part * 200 + total) // (2 * total))


def summary_line(figures: Mapping[str, Any], *, link: str, server: str) -> str:
    """Return the closing line of a run from the daemon's response to ``end``.

    ``server`` is the server's URL, ``link`` the URL of the run's page. Either is "" if unknown.
    """
    energy_mj = int(figures.get("energy_mj", 0))
    qualities = figures.get("by_quality") or {}
    quality_shares = ", ".join(
        f"{name} {percent(int(qualities.get(name, 0)), energy_mj)} %"
        for name in QUALITIES
        if name in ("counter", "modelled") or qualities.get(name)
    )
    if not energy_mj:
        quality_shares = "below the resolution of the meters"
    parts = [f"labcarbon: {energy_text(energy_mj)} ({quality_shares})"]
    grams = figures.get("grams")
    if grams is not None:
        parts.append(emission_text(round(float(grams) * UG_PER_G)))
    elif server and figures.get("zone", "") != "":
        parts.append("kg CO2e: not known to this node yet, see the page of the run")
    elif server:
        parts.append(f"no kg CO2e: set the grid zone of this node's site at {server}/nodes/")
    else:
        parts.append("no kg CO2e: enrol this node with: labcarbon-collect enrol URL")
    idle_mj = figures.get("idle_mj", 0)
    idle = (
        "idle share unknown (the collector was restarted)"
        if idle_mj is None
        else f"idle {percent(idle_mj, idle_mj + energy_mj)} %"
    )
    parts.append(idle)
    if link:
        parts.append(link)
    return " · ".join(parts)
