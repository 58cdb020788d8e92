"""Spread the purchase price of an asset over its service life, as embodied carbon is spread. Pure.

The price takes the place of the embodied carbon of the purchase; repairs and the end of life have
no price. Amounts are millionths of the currency of the price.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.assets.amortisation import Charge, Metered, Use, charges
from apps.assets.choices import OPENING, ChargeKind
from apps.assets.lifecycle import Event

_PROBE = 10**18  # with this price, every hour of a service life has a share


@dataclass(frozen=True)
class PriceShare:
    """The share of a period in the price of an asset. ``cost_ucurrency`` None: the price is
    unknown. ``written_off_ucurrency``: the part of the cost that the disposal wrote off.
    """

    cost_ucurrency: int | None
    written_off_ucurrency: int = 0


def price_share(
    events: Sequence[Event],
    price_ucurrency: int | None,
    from_hour: int,
    to_hour: int,
    uses: Sequence[Use] = (),
    metered: Sequence[Metered] = (),
) -> PriceShare | None:
    """Return the share of ``[from_hour, to_hour)``, None if nothing is charged in it.

    The shares of adjacent periods that cover a service life sum exactly to the price. ``events``,
    ``uses`` and ``metered`` are those of :func:`apps.assets.amortisation.charges`.
    """
    amount = price_ucurrency or _PROBE
    charged = [
        charge
        for charge in charges(_priced(events, amount), uses, metered=metered)
        if charge.from_hour < to_hour and charge.to_hour > from_hour
    ]
    if not charged:
        return None
    if not price_ucurrency:
        return PriceShare(price_ucurrency)
    written_off = [each for each in charged if each.kind == ChargeKind.WRITTEN_OFF]
    return PriceShare(_sum(charged, from_hour, to_hour), _sum(written_off, from_hour, to_hour))


def _priced(events: Sequence[Event], amount: int) -> list[Event]:
    return [
        replace(
            event,
            total_ug=amount if event.kind in OPENING else None,
            end_of_life_ug=None,
            includes_end_of_life=None,
        )
        for event in events
    ]


def _sum(charges_: Sequence[Charge], from_hour: int, to_hour: int) -> int:
    return sum(charge.within(from_hour, to_hour) for charge in charges_)
