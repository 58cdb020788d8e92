"""Periodic job of accounts."""

from apps.accounts.models import Invitation, OneTimeCode
from apps.accounts.services import erasure  # noqa: F401 - its job and receiver
from apps.core.clock import now_us
from apps.core.jobs import CLEAR_CHUNK, periodic_job
from apps.core.units import US_PER_HOUR

DAY_US = 24 * US_PER_HOUR
INVITATION_RETENTION_US = 90 * DAY_US


@periodic_job("accounts.clear_expired")
def clear_expired_job() -> int:
    """Delete one-time codes a day after their expiry, and invitations 90 days after theirs. The
    audit log retains both.
    """
    now = now_us()
    codes = OneTimeCode.objects.filter(expires_us__lt=now - DAY_US)
    invitations = Invitation.objects.filter(expires_us__lt=now - INVITATION_RETENTION_US)
    while pks := list(codes.values_list("pk", flat=True)[:CLEAR_CHUNK]):
        OneTimeCode.objects.filter(pk__in=pks).delete()
    while pks := list(invitations.values_list("pk", flat=True)[:CLEAR_CHUNK]):
        Invitation.objects.filter(pk__in=pks).delete()
    return now + DAY_US
