"""The currency of a lab: chosen by an admin, else that of its first electricity price. Prices keep
their own, and no amount is converted.
"""

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.core.errors import InvalidInput
from apps.fleet.choices import CURRENCIES
from apps.fleet.selectors import active_prices


def check_currency(currency: str) -> None:
    """Raise InvalidInput unless ``currency`` is a currency in capital letters."""
    if currency not in CURRENCIES:
        raise InvalidInput(
            f"Unknown currency {currency[:20]!r}.",
            field="currency",
            hint="Enter three letters, e.g. EUR.",
        )


def _currencies_of_prices(lab: Lab) -> list[str]:
    """Return the currencies of prices in the order of their recording."""
    return list(active_prices(lab).order_by("pk").values_list("currency", flat=True))


@transaction.atomic
def choose_currency(*, lab: Lab, currency: str, by: User, now: int) -> bool:
    """Choose the currency in which costs are summed, '': that of the first price. Return whether
    it is another choice. Only the selection of prices changes, so nothing is recalculated.
    """
    if currency:
        check_currency(currency)
    locked_lab = audit.hold(lab)
    values = {
        "currency": currency or next(iter(_currencies_of_prices(lab)), ""),
        "is_currency_chosen": bool(currency),
    }
    changed = {
        name: {"from": getattr(locked_lab, name), "to": value}
        for name, value in values.items()
        if getattr(locked_lab, name) != value
    }
    if changed:
        Lab.objects.filter(pk=lab.pk).update(**values)
        audit.record(
            lab=lab,
            by=by,
            action=Act.LAB_CHANGED,
            subject=locked_lab.name,
            details=changed,
            now=now,
        )
    return bool(changed)


def replace_unused_currency(lab: Lab) -> None:
    """Give a lab the currency of its first price if no price in its own is left, unless an admin
    chose it.
    """
    left = _currencies_of_prices(lab)
    labs = Lab.objects.filter(pk=lab.pk, is_currency_chosen=False).exclude(currency__in=left)
    labs.update(currency=left[0] if left else "")
