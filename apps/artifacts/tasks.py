"""Jobs of artifacts."""

from apps.accounts.models import Lab
from apps.artifacts.cleanup.notifications import MAIL, mail_notice
from apps.artifacts.services.lineage import join_new
from apps.artifacts.services.register import JOIN
from apps.core.clock import now_us
from apps.core.jobs import job


@job(JOIN)
def join_job(key: str) -> None:
    """Join new artifacts of lab ``key`` with the runs that name their content."""
    join_new(lab=Lab.objects.get(pk=int(key)), now=now_us())


@job(MAIL)
def mail_job(key: str) -> None:
    """Send the mail of notice ``key``."""
    mail_notice(pk=int(key), now=now_us())
