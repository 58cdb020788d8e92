"""CodeCarbon's tokens and what to write where: what their page shows."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import QuerySet
from django.urls import reverse

from apps.accounts.models import Project
from apps.core.units import PPM
from apps.dashboard.decorators import Visitor
from apps.fleet.models import Node, Site
from apps.fleet.selectors import measured_nodes, sites_of
from apps.trackers.codecarbon.selectors import possible_double_counts, runs_by_source, sources_of
from apps.trackers.models import CodeCarbonSource


@dataclass(frozen=True)
class Snippets:
    """A token in the three ways that CodeCarbon can be told of it."""

    config: str
    environment: str
    python: str
    http_output: str


@dataclass(frozen=True)
class SourceRow:
    """A token as shown: where it charges, which machine it tells of, and what came."""

    source: CodeCarbonSource
    runs: int
    state: str
    words: str

    @property
    def pue(self) -> str:
        return f"{self.source.client_pue_ppm / PPM:g}"


@dataclass(frozen=True)
class CodeCarbonPage:
    """What can be chosen, and the tokens there are."""

    projects: QuerySet[Project]
    nodes: QuerySet[Node]
    sites: QuerySet[Site]
    rows: list[SourceRow]
    unnamed: int


def snippets(text: str) -> Snippets:
    """Return what to write for a token, for unmodified clients of CodeCarbon."""
    endpoint = settings.SITE_URL + reverse("codecarbon", args=[text])
    return Snippets(
        config=f"[codecarbon]\nsave_to_api = true\napi_endpoint = {endpoint}\n",
        environment=f"export CODECARBON_SAVE_TO_API=true\nexport CODECARBON_API_ENDPOINT={endpoint}\n",
        python=f'EmissionsTracker(save_to_api=True, api_endpoint="{endpoint}")',
        http_output=f'EmissionsTracker(emissions_endpoint="{endpoint}/emissions-data")',
    )


def codecarbon_page(visitor: Visitor) -> CodeCarbonPage:
    """Return the page. A fixed number of queries."""
    counted = runs_by_source(visitor.lab)
    rows = []
    for source in sources_of(visitor.lab):
        state, words = "running", "in use"
        if source.token is None:
            state, words = "finished", "imported"
        elif source.token.revoked_us is not None:
            state, words = "failed", "ended"
        elif source.token.expires_us is not None and source.token.expires_us <= visitor.now:
            state, words = "failed", "expired"
        rows.append(SourceRow(source, counted.get(source.pk, 0), state, words))
    return CodeCarbonPage(
        projects=Project.objects.filter(lab=visitor.lab).order_by("name", "id"),
        nodes=measured_nodes(visitor.lab),
        sites=sites_of(visitor.lab),
        rows=rows,
        unnamed=possible_double_counts(visitor.lab).count(),
    )
