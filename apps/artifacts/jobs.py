"""Background jobs of artifacts."""

from apps.accounts.models import Lab
from apps.artifacts.cleanup.notifications import MAIL_JOB, send_mail
from apps.artifacts.services.lineage import link_new_artifacts
from apps.artifacts.services.register import LINK_JOB
from apps.core.clock import now_us
from apps.core.jobs import job


@job(LINK_JOB)
def link_artifacts(key: str) -> None:
    """Link new artifacts of lab ``key`` with the runs whose fingerprints name their content."""
    link_new_artifacts(lab=Lab.objects.get(pk=int(key)), now=now_us())


@job(MAIL_JOB)
def send_notification_mail(key: str) -> None:
    """Send the mail of notification ``key``."""
    send_mail(pk=int(key), now=now_us())
