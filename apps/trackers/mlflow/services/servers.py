"""MLflow servers of a lab: add, change, enable, disable, test and remove.

Secrets are encrypted and never displayed.
"""

import time
from dataclasses import dataclass, replace
from uuid import uuid4

from django.conf import settings
from django.db import transaction

from apps.accounts import audit
from apps.accounts.encryption import DecryptionError, decrypt, encrypt
from apps.accounts.models import Lab, Project, User
from apps.core.errors import InvalidInput, NotFound
from apps.core.jobs import enqueue
from apps.core.text import replace_unstorable
from apps.core.url_allowlist import parse_address
from apps.fleet.models import Node, Site
from apps.fleet.selectors import TRACKER
from apps.fleet.services import register_node
from apps.trackers.choices import Act
from apps.trackers.mlflow.choices import SignIn
from apps.trackers.mlflow.client import MlflowError, OutOfTime, Server
from apps.trackers.mlflow.models import MlflowExperiments, MlflowSource

POLL = "trackers.mlflow"
MAX_PATTERNS = 50
_PURPOSE = "labcarbon tracker secret"
_TOOL = "MLflow"


@dataclass(frozen=True)
class SourceIn:
    """Values of a server. ``secret`` None: keep the stored one. ``patterns``: (pattern,
    project).
    """

    name: str
    address: str
    sign_in: SignIn = SignIn.NONE
    user: str = ""
    secret: str | None = None
    patterns: tuple[tuple[str, Project], ...] = ()
    project: Project | None = None
    node: Node | None = None
    site: Site | None = None
    writes_verdicts: bool = True
    reads_files: bool = True


@transaction.atomic
def add_source(*, lab: Lab, payload: SourceIn, by: User, now: int) -> MlflowSource:
    """Add a server and enqueue its first poll. A removed server continues where it stopped.
    Raises InvalidInput.
    """
    payload = _checked(lab, payload)
    audit.hold(lab)
    existing = (
        MlflowSource.objects.select_for_update().filter(lab=lab, address=payload.address).first()
    )
    if existing is not None and existing.removed_us is None:
        raise InvalidInput(
            "This server already exists.",
            field="address",
            hint=f"Edit the server {existing.name} instead.",
        )
    if payload.node is None and payload.site is None:
        raise InvalidInput(
            "Select a node or a site.",
            field="site",
            hint="The grid zone and the PUE of the site convert energy to carbon.",
        )
    source = existing or MlflowSource(
        lab=lab, address=payload.address, created_by=by, created_us=now
    )
    source.removed_us, source.enabled, source.failures, source.problem = None, True, 0, ""
    _apply(source, payload, now)
    _record(source, Act.SERVER_ADDED, by, now)
    return source


@transaction.atomic
def change_source(*, source: MlflowSource, payload: SourceIn, by: User, now: int) -> MlflowSource:
    """Change a server. The change applies to data that is read from now on. Raises InvalidInput."""
    payload = _checked(source.lab, payload)
    if payload.address != source.address:
        raise InvalidInput(
            "The address of a server cannot be changed.",
            field="address",
            hint="Add another server.",
        )
    audit.hold(source.lab)
    source = MlflowSource.objects.select_for_update().get(pk=source.pk)
    _apply(source, payload, now)
    _record(source, Act.SERVER_CHANGED, by, now)
    return source


@transaction.atomic
def switch_source(*, source: MlflowSource, enabled: bool, by: User, now: int) -> None:
    """Enable or disable the polling of a server. Imported data stays."""
    audit.hold(source.lab)
    MlflowSource.objects.filter(pk=source.pk).update(enabled=enabled, failures=0, due_us=0)
    source.enabled = enabled
    _record(source, Act.SERVER_CHANGED, by, now)
    if enabled:
        enqueue(kind=POLL, key=str(source.pk))


@transaction.atomic
def remove_source(*, source: MlflowSource, by: User, now: int) -> None:
    """Remove a server and delete its secret. Its runs, their energy and the poll position stay."""
    audit.hold(source.lab)
    MlflowSource.objects.filter(pk=source.pk).update(
        removed_us=now, enabled=False, secret="", user=""
    )
    _record(source, Act.SERVER_REMOVED, by, now)


def _checked(lab: Lab, payload: SourceIn) -> SourceIn:
    name = str(replace_unstorable(payload.name)).strip()
    if not name or len(name) > 100:
        raise InvalidInput(
            "Enter a name of at most 100 characters.",
            field="name",
            hint="Example: MLflow of the lab.",
        )
    address = parse_address(payload.address)
    related = (
        payload.project,
        payload.node,
        payload.site,
        *(project for _, project in payload.patterns),
    )
    if any(item is not None and item.lab_id != lab.pk for item in related):
        raise NotFound(
            "No such project, node or site in your lab.", hint="Select one from the list."
        )
    if not payload.patterns and payload.project is None:
        raise InvalidInput(
            "No experiment would be imported.",
            field="project",
            hint="Select a project for them.",
        )
    if len(payload.patterns) > MAX_PATTERNS or any(
        not 0 < len(pattern) <= 200 for pattern, _ in payload.patterns
    ):
        raise InvalidInput(
            f"Enter at most {MAX_PATTERNS} lines of at most 200 characters.", field="patterns"
        )
    if payload.sign_in == SignIn.PASSWORD and (
        not payload.user.strip() or ":" in payload.user or len(payload.user) > 200
    ):
        raise InvalidInput("Enter the user of this password, without a colon.", field="user")
    if payload.secret is not None and (
        len(payload.secret) > 2000 or not payload.secret.isprintable()
    ):
        raise InvalidInput(
            "Enter a password or token of at most 2000 printable characters.", field="secret"
        )
    if payload.sign_in == SignIn.TOKEN and not (payload.secret or "").isascii():
        raise InvalidInput(
            "A token has ASCII characters only.", field="secret", hint="Copy the token again."
        )
    return replace(
        payload,
        name=name,
        address=str(address),
        user=payload.user.strip() if payload.sign_in == SignIn.PASSWORD else "",
    )


def _apply(source: MlflowSource, payload: SourceIn, now: int) -> None:
    if payload.sign_in == SignIn.NONE:
        source.secret = ""
    elif payload.secret:
        source.secret = encrypt(_PURPOSE, payload.secret)
    elif not source.secret or source.sign_in != payload.sign_in:
        raise InvalidInput(
            "Enter the password or token.",
            field="secret",
            hint="It is stored encrypted and never displayed.",
        )
    source.name, source.sign_in, source.user = payload.name, payload.sign_in, payload.user
    source.project, source.writes_verdicts, source.reads_files = (
        payload.project,
        payload.writes_verdicts,
        payload.reads_files,
    )
    if payload.node is not None:
        source.node, source.bound = payload.node, True
    elif source.node_id is None or source.bound or payload.site is not None:
        source.node, source.bound = _stand_in(source, payload.site, now), False
    source.due_us = 0
    source.all_from_ms, source.all_done_us = (
        None,
        None,
    )  # newly selected experiments are read from the start
    source.save()
    source.patterns.all().delete()
    MlflowExperiments.objects.bulk_create(
        MlflowExperiments(source=source, position=i, pattern=pattern, project=project)
        for i, (pattern, project) in enumerate(payload.patterns)
    )
    enqueue(kind=POLL, key=str(source.pk))


def _stand_in(source: MlflowSource, site: Site | None, now: int) -> Node:
    """Return the stand-in for unknown nodes, one per server and site."""
    if site is None:
        raise InvalidInput("Select a site, or a node.", field="site")
    label = f"{_TOOL}: {source.name} ({site.name})"[:255]
    existing = Node.objects.filter(lab=source.lab, hostname=label, facts__has_key=TRACKER).first()
    return existing or register_node(
        lab=source.lab, uuid=uuid4(), hostname=label, facts={TRACKER: _TOOL}, site=site, now=now
    )


def _record(source: MlflowSource, act: Act, by: User, now: int) -> None:
    patterns = source.patterns.select_related("project").order_by("position")
    details = {
        "address": source.address,
        "sign_in": source.sign_in,
        "on": source.enabled,
        "verdicts": source.writes_verdicts,
        "files": source.reads_files,
        "patterns": [f"{row.pattern} = {row.project.slug}" for row in patterns],
    }
    audit.record(lab=source.lab, by=by, action=act, subject=source.name, details=details, now=now)


def server_of(source: MlflowSource, *, seconds: float) -> Server:
    """Return a client for a server with a time limit. Raises MlflowError if the secret cannot be
    decrypted.
    """
    try:
        secret = decrypt(_PURPOSE, source.secret) if source.secret else ""
    except DecryptionError as error:
        raise MlflowError(
            "The password or token cannot be decrypted, because the token peppers of LabCarbon "
            "changed. Enter it again."
        ) from error
    return Server(
        address=parse_address(source.address),
        sign_in=SignIn(source.sign_in),
        user=source.user,
        secret=secret,
        inside=settings.TRACKER_ALLOWLIST,
        until=time.monotonic() + seconds,
    )


def try_source(source: MlflowSource) -> tuple[bool, str]:
    """Test a server; return whether it responds, and a message."""
    try:
        server = server_of(source, seconds=20)
        version, experiments = server.version(), server.experiments()
    except MlflowError as problem:
        return False, problem.message
    except OutOfTime:
        return False, f"{source.address} responds too slowly."
    number = f"{len(experiments)} experiment{'' if len(experiments) == 1 else 's'}"
    return True, f"Reached, MLflow {version or '(unknown version)'}, {number}."
