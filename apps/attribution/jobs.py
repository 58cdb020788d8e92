"""Jobs of attribution."""

from uuid import UUID

from apps.accounts.models import Lab
from apps.attribution.models import AttributionRule
from apps.attribution.services.derive import reattribute_lab, reattribute_rule, reattribute_run
from apps.core.jobs import job
from apps.runs.models import Run


@job("attribution.lab")
def lab_job(key: str) -> None:
    """Derive all attributions of lab ``key`` after a change of a placement."""
    reattribute_lab(lab=Lab.objects.get(pk=int(key)))


@job("attribution.rule")
def rule_job(key: str) -> None:
    """Derive the attributions of rule ``key`` after it was created, ended, withdrawn or
    restored.
    """
    reattribute_rule(rule=AttributionRule.objects.select_related("lab").get(pk=int(key)))


@job("attribution.run")
def run_job(key: str) -> None:
    """Derive the attribution of the run ``<lab>:<uuid>``."""
    lab, _, uuid = key.partition(":")
    run = Run.objects.filter(lab_id=int(lab), uuid=UUID(uuid)).select_related("lab").first()
    if run is not None:
        reattribute_run(lab=run.lab, run=run)
