"""Jobs of carbon."""

from apps.accounts.models import Lab
from apps.carbon.services import apply_factors
from apps.core.jobs import handles


@handles("carbon.apply_factors")
def apply_factors_job(key: str) -> None:
    """Derive the applied factors of lab ``key``."""
    apply_factors(lab=Lab.objects.get(pk=int(key)))
