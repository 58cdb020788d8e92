"""Page object of the CodeCarbon page: tokens, and lines to copy."""

from dataclasses import dataclass

from django.conf import settings
from django.urls import reverse

from apps.core.units import PPM
from apps.dashboard.decorators import Visitor
from apps.trackers.codecarbon.models import CodeCarbonSource
from apps.trackers.codecarbon.selectors import possible_double_counts, runs_by_source, sources_of


@dataclass(frozen=True)
class Snippets:
    """Lines that configure CodeCarbon with a token."""

    config: str
    environment: str
    python: str
    http_output: str


@dataclass(frozen=True)
class SourceRow:
    """A token or an imported file in the list. ``state``: CSS class of the badge."""

    source: CodeCarbonSource
    runs: int
    state: str
    state_label: str

    @property
    def pue(self) -> str:
        return f"{self.source.client_pue_ppm / PPM:g}"


@dataclass(frozen=True)
class CodeCarbonPage:
    """The sources of a lab. ``without_node``: number of sources that name no node."""

    rows: list[SourceRow]
    without_node: int


def snippets(text: str) -> Snippets:
    """Return the lines that configure an unmodified CodeCarbon client with a token."""
    endpoint = settings.SITE_URL + reverse("codecarbon", args=[text])
    return Snippets(
        config=f"[codecarbon]\nsave_to_api = true\napi_endpoint = {endpoint}\n",
        environment=(
            f"export CODECARBON_SAVE_TO_API=true\nexport CODECARBON_API_ENDPOINT={endpoint}\n"
        ),
        python=f'EmissionsTracker(save_to_api=True, api_endpoint="{endpoint}")',
        http_output=f'EmissionsTracker(emissions_endpoint="{endpoint}/emissions-data")',
    )


def codecarbon_page(visitor: Visitor) -> CodeCarbonPage:
    """Return the page. A fixed number of queries."""
    counted = runs_by_source(visitor.lab)
    rows = []
    for source in sources_of(visitor.lab):
        state, label = "running", "active"
        if source.token is None:
            state, label = "finished", "imported"
        elif source.token.revoked_us is not None:
            state, label = "failed", "revoked"
        elif source.token.expires_us is not None and source.token.expires_us <= visitor.now:
            state, label = "failed", "expired"
        rows.append(SourceRow(source, counted.get(source.pk, 0), state, label))
    return CodeCarbonPage(
        rows=rows,
        without_node=possible_double_counts(visitor.lab).count(),
    )
