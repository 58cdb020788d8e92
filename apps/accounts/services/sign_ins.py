"""Sign-ins and failed sign-ins in the audit log of each lab of the person.

A failed sign-in without a known person is recorded in all labs of the server. What was typed is not
recorded, because it can be a password.
"""

from typing import Any

from django.contrib.auth import login
from django.core.cache import cache
from django.http import HttpRequest

from apps.accounts import audit
from apps.accounts.choices import Act, SignInMethod
from apps.accounts.models import Lab, User
from apps.accounts.person_names import UNKNOWN
from apps.core.units import US_PER_S

# Attempts cannot fill the log: at most so many per minute and person, and for all unknown ones.
MAX_FAILED_PER_MINUTE = 10
_BACKEND = "django.contrib.auth.backends.ModelBackend"


def start_session(*, request: HttpRequest, user: User, method: SignInMethod, now: int) -> None:
    """Sign ``user`` in without a password, and record it."""
    login(request, user, backend=_BACKEND)
    record_sign_in(user=user, method=method, now=now)


def record_sign_in(*, user: User, method: SignInMethod, now: int) -> None:
    """Record that ``user`` signed in."""
    _record(Act.SIGNED_IN, user, {"method": method.value}, now)


def record_failed_sign_in(*, user: User | None, method: SignInMethod, now: int) -> None:
    """Record a failed sign-in of ``user`` (None: unknown).

    Further ones of the same minute are not recorded; the last recorded one says so.
    """
    minute = now // (60 * US_PER_S)
    key = f"failed-sign-ins:{user.pk if user else ''}:{minute}"
    cache.add(key, 0, 120)
    try:
        count = cache.incr(key)
    except ValueError:  # it expired in between
        count = 1
    if count > MAX_FAILED_PER_MINUTE:
        return
    details: dict[str, Any] = {"method": method.value}
    if count == MAX_FAILED_PER_MINUTE:
        details["more_in_this_minute_not_recorded"] = True
    _record(Act.SIGN_IN_FAILED, user, details, now)


def _record(action: Act, user: User | None, details: dict[str, Any], now: int) -> None:
    labs = Lab.objects.filter(memberships__user=user) if user else Lab.objects.all()
    subject = user.get_username() if user else UNKNOWN
    actor = subject if action == Act.SIGN_IN_FAILED else ""
    for lab in labs.order_by("pk"):
        audit.record(
            lab=lab,
            by=user if action == Act.SIGNED_IN else None,
            actor=actor,
            action=action,
            subject=subject,
            details=details,
            now=now,
        )
