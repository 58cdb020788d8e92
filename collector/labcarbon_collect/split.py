"""Divide an integer among consumers so that nothing is lost. Pure."""

from __future__ import annotations

from typing import Dict, Mapping


def largest_remainder(total: int, weights: Mapping[str, int]) -> Dict[str, int]:
    """Divide ``total`` (mJ, or any unit ≥ 0) in proportion to integer ``weights``; the parts sum to it exactly.

    Each key first gets the whole part of its quota; what is left goes, one unit each, to the largest fractions, ties by
    key, so that every machine divides alike (Hamilton's method). Keys of weight 0 are left out.

    Raises ValueError on a negative total or weight, and when there is something to divide but nobody to give it to.
    """
    if total < 0:
        raise ValueError(f"cannot divide a negative total: {total}")
    if any(weight < 0 for weight in weights.values()):
        raise ValueError(f"negative weight among {dict(weights)}")
    present = {key: weight for key, weight in weights.items() if weight}
    weight_sum = sum(present.values())
    if not weight_sum:
        if total:
            raise ValueError(f"{total} to divide among no weights")
        return {}
    parts = {key: total * weight // weight_sum for key, weight in present.items()}
    by_fraction = sorted(present, key=lambda key: (-(total * present[key] % weight_sum), key))
    for key in by_fraction[: total - sum(parts.values())]:
        parts[key] += 1
    return parts
