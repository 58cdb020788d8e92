"""CodeCarbon tokens. A token adds runs to one project, for one node or for unknown nodes."""

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
    """Create a token that can only add to ``project``; return its source and its text.

    ``node``: the node that uses it. None: unknown nodes at ``site``, with its grid zone and PUE.
    """
    if role_in(lab, by) in {"", Role.VIEWER}:
        raise Forbidden(
            "Your role is read-only.", hint="Ask an admin of your lab for another role."
        )
    cleaned_name = str(replace_unstorable(name)).strip()
    if not cleaned_name or len(cleaned_name) > 100:
        raise InvalidInput(
            "Enter a name of at most 100 characters.",
            field="name",
            hint="Example: cluster notebooks.",
        )
    if expires_us is not None and expires_us <= now:
        raise InvalidInput(
            "The token would already be expired.", field="expires", hint="Choose a later date."
        )
    if not PPM <= client_pue_ppm <= MAX_PUE_PPM:
        raise InvalidInput(
            "Enter a PUE from 1 to 10.",
            field="client_pue",
            hint="Use 1 if CodeCarbon has no PUE setting.",
        )
    _check_same_lab(lab, project, node, site)
    token, text = new_token(
        kind=TokenKind.TRACKER,
        lab=lab,
        scopes=(),
        now=now,
        name=cleaned_name,
        created_by=by,
        expires_us=expires_us,
        node_uuid=node.uuid if node else None,
    )
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
        "kind": str(TokenKind.TRACKER),
        "name": cleaned_name,
        "project": project.slug,
        "node": str(node.uuid) if node else "",
        "client_pue_ppm": client_pue_ppm,
        "expires_us": expires_us,
    }
    audit.record(
        lab=lab, by=by, action=Act.TOKEN_CREATED, subject=token.public_id, details=details, now=now
    )
    return source, text


def _check_same_lab(lab: Lab, project: Project, node: Node | None, site: Site | None) -> None:
    if any(item is not None and item.lab_id != lab.pk for item in (project, node, site)):
        raise NotFound(
            "No such project, node or site in your lab.", hint="Select one from the list."
        )


def _stand_in(lab: Lab, label: str, site: Site | None, now: int) -> Node:
    """Return a new stand-in for unknown nodes."""
    if site is None:
        raise InvalidInput(
            "Select a node or a site.",
            field="site",
            hint="The grid zone and the PUE of the site convert energy to carbon.",
        )
    return register_node(
        lab=lab,
        uuid=uuid4(),
        hostname=f"{_TOOL}: {label}",
        facts={TRACKER: _TOOL},
        site=site,
        now=now,
    )


@transaction.atomic
def source_for_files(
    *, lab: Lab, project: Project, node: Node | None, site: Site | None, now: int
) -> CodeCarbonSource:
    """Return the source of imported files of a project and node (or site). The first import
    creates it.
    """
    _check_same_lab(lab, project, node, site)
    Lab.objects.select_for_update().get(pk=lab.pk)  # concurrent imports share one source
    sources = CodeCarbonSource.objects.select_related("node", "project", "lab").filter(
        lab=lab, token=None, project=project
    )
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
    """Return the source of a CodeCarbon token. One query per cached token."""
    source: CodeCarbonSource = token.codecarbon
    return source
