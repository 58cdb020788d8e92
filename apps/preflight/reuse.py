"""Before training anew: models that are there and share data, purpose or architecture, with what making them took."""

from typing import Any

from django.conf import settings

from apps.accounts.models import Lab
from apps.artifacts.reusing import Reusable, reusable, terms_of_row
from apps.carbon.selectors import figures_of_runs
from apps.preflight.choices import Verdict
from apps.preflight.telling import Asker, emission_of
from apps.preflight.verdicts import Found
from apps.runs.models import Fingerprint, Run
from apps.runs.selectors import metrics_of

MOST = 3
SCRATCH = "scratch"


def told_reuse(lab: Lab, row: Fingerprint, found: Found, asker: Asker, tags: dict[str, object]) -> list[dict[str, Any]]:
    """Return up to three models that could be adapted instead; none where the work was done already, begins from something,
    or the asker may not read runs."""
    if found.verdict != Verdict.NONE or row.start_name not in ("", SCRATCH) or not asker.reads:
        return []
    listed = reusable(lab, terms_of_row(row, tags), most=MOST)
    makers = [each.maker for each in listed if each.maker is not None]
    figures = figures_of_runs(lab, [run.uuid for run in makers])
    metrics = metrics_of([run.pk for run in makers])
    return [_told(each, figures.get(each.maker.uuid) if each.maker else None, metrics, asker) for each in listed]


def _told(each: Reusable, figure: Any, metrics: dict[int, tuple[str, float]], asker: Asker) -> dict[str, Any]:
    artifact, run = each.artifact, each.maker
    metric = metrics.get(run.pk) if run else None
    return {
        "digest": artifact.digest,
        "name": artifact.name,
        "url": f"{settings.SITE_URL}/artifacts/{artifact.digest}/",
        "why": each.why,
        "who": _who(run, asker),
        "licence": artifact.licence or None,
        "bytes": artifact.bytes,
        "metric": {"name": metric[0], "value": metric[1]} if metric else None,
        "energy_mj": figure.energy_mj if figure else None,
        "emission_ug": emission_of(figure),
    }


def _who(run: Run | None, asker: Asker) -> str | None:
    return asker.who(run) if run is not None else None
