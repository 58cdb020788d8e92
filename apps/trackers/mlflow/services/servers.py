"""MLflow servers of a lab: added, changed, switched, tested, removed. A password or token is kept sealed and never told."""

import time
from dataclasses import dataclass, replace
from uuid import uuid4

from django.conf import settings
from django.db import transaction

from apps.accounts import audit
from apps.accounts.encryption import CannotOpen, opened, seal
from apps.accounts.models import Lab, Project, User
from apps.core.errors import InvalidInput, NotFound
from apps.core.jobs import enqueue
from apps.core.text import replace_unstorable
from apps.core.url_allowlist import parse_address
from apps.fleet.models import Node, Site
from apps.fleet.selectors import TRACKER
from apps.fleet.services import register_node
from apps.trackers.choices import Act, SignIn
from apps.trackers.mlflow.client import MlflowProblem, OutOfTime, Server
from apps.trackers.models import MlflowExperiments, MlflowSource

POLL = "trackers.mlflow"
MAX_PATTERNS = 50
_PURPOSE = "labcarbon tracker secret"
_TOOL = "MLflow"


@dataclass(frozen=True)
class SourceIn:
    """A server as somebody typed it. ``secret`` None: the one that is kept stays. ``patterns``: (pattern, project)."""

    name: str
    address: str
    sign_in: SignIn = SignIn.NONE
    user: str = ""
    secret: str | None = None
    patterns: tuple[tuple[str, Project], ...] = ()
    project: Project | None = None
    node: Node | None = None
    site: Site | None = None
    tells_verdicts: bool = True
    reads_files: bool = True


@transaction.atomic
def add_source(*, lab: Lab, told: SourceIn, by: User, now: int) -> MlflowSource:
    """Add a server and ask for its first poll. One that was removed goes on where it stood. Raises InvalidInput."""
    told = _checked(lab, told)
    audit.hold(lab)
    there = MlflowSource.objects.select_for_update().filter(lab=lab, address=told.address).first()
    if there is not None and there.removed_us is None:
        raise InvalidInput(
            "This server is there already.", field="address", hint=f"It is called {there.name}: change it on its page."
        )
    if told.node is None and told.site is None:
        raise InvalidInput(
            "Say where its runs compute: a machine, or a site.", field="site",
            hint="The site's grid zone and PUE make carbon of the watts that MLflow tells.",
        )  # fmt: skip
    source = there or MlflowSource(lab=lab, address=told.address, made_by=by, made_us=now)
    source.removed_us, source.on, source.failures, source.problem = None, True, 0, ""
    _put(source, told, now)
    _record(source, Act.SERVER_ADDED, by, now)
    return source


@transaction.atomic
def change_source(*, source: MlflowSource, told: SourceIn, by: User, now: int) -> MlflowSource:
    """Describe a server anew. Where it stands now takes effect for what is read from now on. Raises InvalidInput."""
    told = _checked(source.lab, told)
    if told.address != source.address:
        raise InvalidInput(
            "The address of a server stays.", field="address", hint="Add the other one as a server of its own."
        )
    audit.hold(source.lab)
    source = MlflowSource.objects.select_for_update().get(pk=source.pk)
    _put(source, told, now)
    _record(source, Act.SERVER_CHANGED, by, now)
    return source


@transaction.atomic
def switch_source(*, source: MlflowSource, on: bool, by: User, now: int) -> None:
    """Begin or cease to ask a server. What it told stays."""
    audit.hold(source.lab)
    MlflowSource.objects.filter(pk=source.pk).update(on=on, failures=0, due_us=0)
    source.on = on
    _record(source, Act.SERVER_CHANGED, by, now)
    if on:
        enqueue(kind=POLL, key=str(source.pk))


@transaction.atomic
def remove_source(*, source: MlflowSource, by: User, now: int) -> None:
    """Ask a server no more and forget its password. Its runs and their energy stay, as does how far they were read."""
    audit.hold(source.lab)
    MlflowSource.objects.filter(pk=source.pk).update(removed_us=now, on=False, secret="", user="")
    _record(source, Act.SERVER_REMOVED, by, now)


def _checked(lab: Lab, told: SourceIn) -> SourceIn:
    name = str(replace_unstorable(told.name)).strip()
    if not name or len(name) > 100:
        raise InvalidInput(
            "A server needs a name of at most 100 characters.", field="name", hint="Such as: MLflow of the lab."
        )
    address = parse_address(told.address)
    things = (told.project, told.node, told.site, *(project for _, project in told.patterns))
    if any(thing is not None and thing.lab_id != lab.pk for thing in things):
        raise NotFound("There is no such project, machine or site in your lab.", hint="Choose one of the list.")
    if not told.patterns and told.project is None:
        raise InvalidInput("No experiment would be read.", field="project", hint="Choose a project for all of them.")
    if len(told.patterns) > MAX_PATTERNS or any(not 0 < len(pattern) <= 200 for pattern, _ in told.patterns):
        raise InvalidInput(f"At most {MAX_PATTERNS} lines, of at most 200 characters each.", field="patterns")
    if told.sign_in == SignIn.PASSWORD and (not told.user.strip() or ":" in told.user or len(told.user) > 200):
        raise InvalidInput("A password belongs to a user, whose name has no colon.", field="user")
    if told.secret is not None and (len(told.secret) > 2000 or not told.secret.isprintable()):
        raise InvalidInput("This is no password or token: at most 2000 printable characters.", field="secret")
    if told.sign_in == SignIn.TOKEN and not (told.secret or "").isascii():
        raise InvalidInput("A token has plain letters, digits and signs only.", field="secret", hint="Copy it once more.")
    return replace(told, name=name, address=str(address), user=told.user.strip() if told.sign_in == SignIn.PASSWORD else "")


def _put(source: MlflowSource, told: SourceIn, now: int) -> None:
    if told.sign_in == SignIn.NONE:
        source.secret = ""
    elif told.secret:
        source.secret = seal(_PURPOSE, told.secret)
    elif not source.secret or source.sign_in != told.sign_in:
        raise InvalidInput(
            "The password or token is missing.", field="secret", hint="It is kept sealed and shown to nobody again."
        )
    source.name, source.sign_in, source.user = told.name, told.sign_in, told.user
    source.project, source.tells_verdicts, source.reads_files = told.project, told.tells_verdicts, told.reads_files
    if told.node is not None:
        source.node, source.bound = told.node, True
    elif source.node_id is None or source.bound or told.site is not None:
        source.node, source.bound = _stand_in(source, told.site, now), False
    source.due_us = 0
    source.all_from_ms, source.all_done_us = None, None  # experiments may be read now that were left out
    source.save()
    source.patterns.all().delete()
    MlflowExperiments.objects.bulk_create(
        MlflowExperiments(source=source, position=i, pattern=pattern, project=project)
        for i, (pattern, project) in enumerate(told.patterns)
    )
    enqueue(kind=POLL, key=str(source.pk))


def _stand_in(source: MlflowSource, site: Site | None, now: int) -> Node:
    """Return the node that stands for machines that nobody named, one for each server and site."""
    if site is None:
        raise InvalidInput("Without a machine, say at which site its runs compute.", field="site")
    called = f"{_TOOL}: {source.name} ({site.name})"[:255]
    there = Node.objects.filter(lab=source.lab, hostname=called, facts__has_key=TRACKER).first()
    return there or register_node(lab=source.lab, uuid=uuid4(), hostname=called, facts={TRACKER: _TOOL}, site=site, now=now)


def _record(source: MlflowSource, act: Act, by: User, now: int) -> None:
    patterns = source.patterns.select_related("project").order_by("position")
    details = {
        "address": source.address, "sign_in": source.sign_in, "on": source.on, "verdicts": source.tells_verdicts,
        "files": source.reads_files,
        "patterns": [f"{row.pattern} = {row.project.slug}" for row in patterns],
    }  # fmt: skip
    audit.record(lab=source.lab, by=by, action=act, subject=source.name, details=details, now=now)


def server_of(source: MlflowSource, *, seconds: float) -> Server:
    """Return a server to ask, for so many seconds. Raises MlflowProblem where its password cannot be read any more."""
    try:
        secret = opened(_PURPOSE, source.secret) if source.secret else ""
    except CannotOpen as error:
        raise MlflowProblem(
            "Its password or token cannot be read any more: the server's token peppers were changed. Write it anew."
        ) from error
    return Server(
        address=parse_address(source.address), sign_in=SignIn(source.sign_in), user=source.user, secret=secret,
        inside=settings.TRACKER_ALLOWLIST, until=time.monotonic() + seconds,
    )  # fmt: skip


def try_source(source: MlflowSource) -> tuple[bool, str]:
    """Ask a server now; return whether it answers as one, and a sentence."""
    try:
        server = server_of(source, seconds=20)
        version, found = server.version(), server.experiments()
    except MlflowProblem as problem:
        return False, problem.words
    except OutOfTime:
        return False, f"{source.address} answers too slowly."
    number = f"{len(found)} experiment{'' if len(found) == 1 else 's'}"
    return True, f"Reached, MLflow {version or 'of a version it does not tell'}, {number}."
