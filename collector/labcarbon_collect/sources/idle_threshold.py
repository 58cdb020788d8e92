"""Power above which a device is not idle. Pure."""

from __future__ import annotations

from typing import Optional

MIN_MARGIN_MW = 20_000
MARGIN_PERCENT = 15
# Idle power of a GPU whose idle power is not yet learnt, in percent of its power limit. The known
# cards idle at 5 to 14 %.
UNLEARNT_IDLE_PERCENT = 15


def busy_above_mw(*, learnt_idle_mw: Optional[int], limit_mw: int) -> Optional[int]:
    """Return the power above which a device works, None if nothing is known of it.

    Learnt idle power plus 20 W or 15 % of the power limit, whichever is more. Not yet learnt: 1.5
    times the idle power that its power limit suggests. ``limit_mw`` 0: unknown.
    """
    if learnt_idle_mw:
        return learnt_idle_mw + max(MIN_MARGIN_MW, limit_mw * MARGIN_PERCENT // 100)
    if limit_mw:
        return limit_mw * UNLEARNT_IDLE_PERCENT * 3 // 200
    return None
