"""CodeCarbon's tokens: each appends to one project, and tells of one machine or of machines nobody named."""

from uuid import uuid4

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act, Role, TokenKind
from apps.accounts.models import Lab, Project, Token, User
from apps.accounts.selectors import role_in
from apps.accounts.services.labs import new_token
from apps.core.errors import Forbidden, InvalidInput, NotFound
from apps.core.text import replace_unstorable
from apps.core.units import PPM
from apps.fleet.models import Node, Site
from apps.fleet.selectors import TRACKER
from apps.fleet.services import register_node
from apps.trackers.codecarbon.models import CodeCarbonSource

MAX_PUE_PPM = 10 * PPM
_TOOL = "CodeCarbon"


@transaction.atomic
def create_codecarbon_token(
    *,
    lab: Lab,
    name: str,
    project: Project,
    node: Node | None,
    site: Site | None,
    client_pue_ppm: int,
    expires_us: int | None,
    by: User,
    now: int,
) -> tuple[CodeCarbonSource, str]:
    """Make a token that adds to ``project`` and reads nothing; return what it stands for, and its text, shown this once.

    ``node``: the machine it is used on. None: machines without a collector, at ``site``, whose zone and PUE then hold.
    """
    if role_in(lab, by) in {"", Role.VIEWER}:
        raise Forbidden("Your role here may look but not tell of runs.", hint="Ask an admin of your lab for another role.")
    cleaned_name = str(replace_unstorable(name)).strip()
    if not cleaned_name or len(cleaned_name) > 100:
        raise InvalidInput(
            "A token needs a name of at most 100 characters.",
            field="name",
            hint="Say where it is used, as: cluster notebooks.",
        )
    if expires_us is not None and expires_us <= now:
        raise InvalidInput("The token would be over already.", field="expires", hint="Choose a later end.")
    if not PPM <= client_pue_ppm <= MAX_PUE_PPM:
        raise InvalidInput(
            "A PUE lies between 1 and 10.", field="client_pue", hint="Write 1 where CodeCarbon was given none."
        )
    _check_same_lab(lab, project, node, site)
    token, text = new_token(
        kind=TokenKind.TRACKER, lab=lab, scopes=(), now=now, name=cleaned_name, made_by=by, expires_us=expires_us,
        node_uuid=node.uuid if node else None,
    )  # fmt: skip
    source = CodeCarbonSource.objects.create(
        lab=lab,
        token=token,
        project=project,
        node=node or _stand_in(lab, cleaned_name, site, now),
        bound=node is not None,
        client_pue_ppm=client_pue_ppm,
        created_us=now,
    )
    details = {
        "kind": str(TokenKind.TRACKER), "name": cleaned_name, "project": project.slug,
        "node": str(node.uuid) if node else "",
        "client_pue_ppm": client_pue_ppm, "expires_us": expires_us,
    }  # fmt: skip
    audit.record(lab=lab, by=by, action=Act.TOKEN_CREATED, subject=token.public_id, details=details, now=now)
    return source, text


def _check_same_lab(lab: Lab, project: Project, node: Node | None, site: Site | None) -> None:
    if any(item is not None and item.lab_id != lab.pk for item in (project, node, site)):
        raise NotFound("There is no such project, machine or site in your lab.", hint="Choose one of the list.")


def _stand_in(lab: Lab, label: str, site: Site | None, now: int) -> Node:
    """Return a new node that stands for machines that nobody named."""
    if site is None:
        raise InvalidInput(
            "Say where it runs.", field="site", hint="The site's grid zone and PUE make carbon of its energy."
        )
    return register_node(lab=lab, uuid=uuid4(), hostname=f"{_TOOL}: {label}", facts={TRACKER: _TOOL}, site=site, now=now)


@transaction.atomic
def source_for_files(*, lab: Lab, project: Project, node: Node | None, site: Site | None, now: int) -> CodeCarbonSource:
    """Return what imported files of one project and machine (or, without one, of one site) belong to; made at the first."""
    _check_same_lab(lab, project, node, site)
    Lab.objects.select_for_update().get(pk=lab.pk)  # two imports at once make one
    sources = CodeCarbonSource.objects.select_related("node", "project", "lab").filter(lab=lab, token=None, project=project)
    if node is not None:
        existing = sources.filter(node=node).first()
    else:
        existing = sources.filter(bound=False, node__hostname=f"{_TOOL}: files of {site}").first()
    return existing or CodeCarbonSource.objects.create(
        lab=lab,
        project=project,
        node=node or _stand_in(lab, f"files of {site}" if site else "", site, now),
        bound=node is not None,
        client_pue_ppm=PPM,
        created_us=now,
    )


def source_of(token: Token) -> CodeCarbonSource:
    """Return what a CodeCarbon token stands for; asked once for each token that is remembered."""
    source: CodeCarbonSource = token.codecarbon
    return source
