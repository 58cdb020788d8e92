"""Content of the page that adds nodes."""

from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote

from django.conf import settings
from django.urls import reverse

from apps.dashboard.decorators import Visitor
from apps.fleet.fleet_token_selectors import (
    NewNode,
    active_fleet_tokens,
    allowed_enrolments,
    new_nodes,
    refused_enrolments,
    waiting_enrolments,
)
from apps.fleet.install.script import InstallScript, install_problem, install_script
from apps.fleet.models import FleetEnrolment, FleetToken, RefusedEnrolment

MAX_LISTED = 50
SCRIPT = "labcarbon-install.sh"


@dataclass(frozen=True)
class Step:
    """A command with its heading."""

    key: str
    title: str
    command: str


def _download(script: InstallScript) -> str:
    """Return the command that downloads the script and compares it with its digest."""
    address = quote(f"{settings.SITE_URL}{reverse('install')}")
    return (
        f"curl -fsS {address} -o {SCRIPT} && "
        f'echo "{script.sha256}  {SCRIPT}" | sha256sum --check --quiet'
    )


_SAVE_TOKEN = Step(
    "token-command",
    "Save the fleet token: run this, paste the token, press Enter and Ctrl-D",
    "(umask 077 && cat > fleet-token)",
)


def _workstation(script: InstallScript) -> list[Step]:
    line = f"{_download(script)} && sh {SCRIPT}"
    return [
        Step("install-command", "Install for your user. Enter the fleet token at the prompt", line)
    ]


def _server(script: InstallScript) -> list[Step]:
    return [
        Step("download-command", "Download", _download(script)),
        Step(
            "install-command",
            "Install the service. Enter the fleet token at the prompt",
            f"sudo sh {SCRIPT} --system",
        ),
    ]


def _slurm(script: InstallScript) -> list[Step]:
    command = (
        "sudo srun --partition=gpu --nodes=20 --ntasks-per-node=1 \\\n"
        f'  sh "$PWD/{SCRIPT}" --system < fleet-token && rm fleet-token'
    )
    return [
        Step("download-command", "Download to a folder that all nodes share", _download(script)),
        _SAVE_TOKEN,
        Step(
            "install-command", "Install on each node, as root. Adapt partition and nodes", command
        ),
    ]


def _ansible(script: InstallScript) -> list[Step]:
    playbook = f"""\
- hosts: gpu_nodes
  become: true
  tasks:
    - ansible.builtin.get_url:
        url: {settings.SITE_URL}{reverse("install")}
        dest: /root/{SCRIPT}
        checksum: sha256:{script.sha256}
        mode: "0700"
        force: true
    - ansible.builtin.copy:
        content: "{{{{ vault_labcarbon_fleet_token }}}}"
        dest: /root/labcarbon-fleet-token
        mode: "0600"
      no_log: true
    - ansible.builtin.command:
        cmd: sh /root/{SCRIPT} --system --token-file /root/labcarbon-fleet-token
    - ansible.builtin.file:
        path: /root/labcarbon-fleet-token
        state: absent"""
    return [
        Step(
            "install-command",
            "Put the fleet token into the vault as vault_labcarbon_fleet_token. Playbook",
            playbook,
        )
    ]


def _container(script: InstallScript) -> list[Step]:
    command = (
        "docker run --detach --name labcarbon-collect --restart unless-stopped \\\n"
        '  --pid host --gpus all --hostname "$(hostname)" \\\n'
        "  --volume labcarbon:/var/lib/labcarbon --volume /run/labcarbon:/run/labcarbon \\\n"
        f'  --volume "$PWD/{SCRIPT}:/{SCRIPT}:ro" --volume "$PWD/fleet-token:/fleet-token:ro" \\\n'
        f"  python:3-slim sh /{SCRIPT} --foreground --token-file /fleet-token"
    )
    return [
        Step("download-command", "Download", _download(script)),
        _SAVE_TOKEN,
        Step(
            "install-command",
            "Run as root, with any image that contains Python 3.9 or newer",
            command,
        ),
    ]


@dataclass(frozen=True)
class Kind:
    """A kind of node with its own commands: a tab of the page."""

    key: str
    title: str
    note: str
    steps: Callable[[InstallScript], list[Step]]


KINDS = (
    Kind(
        "workstation",
        "Workstation",
        "Runs as your user and needs no root. The CPU's energy counters need the service.",
        _workstation,
    ),
    Kind(
        "server",
        "Server (systemd)",
        "Runs as a service with a user of its own, in /opt/labcarbon-collect.",
        _server,
    ),
    Kind(
        "slurm",
        "Slurm",
        "Each job becomes a run of its user and account. Jobs need ProctrackType=proctrack/cgroup.",
        _slurm,
    ),
    Kind("ansible", "Ansible", "A node that is enrolled stays enrolled.", _ansible),
    Kind(
        "container",
        "Container",
        "The token file must belong to root. The CPU's energy counters may be unreadable inside.",
        _container,
    ),
)


@dataclass(frozen=True)
class LiveNodes:
    """Nodes that came with a fleet token in the last 24 hours."""

    rows: list[NewNode]

    @property
    def ready(self) -> int:
        return sum(row.state == "ready" for row in self.rows)


@dataclass(frozen=True)
class FleetPage:
    """``script`` None: the install address cannot serve it, for the reason ``problem``."""

    tokens: list[FleetToken]
    waiting: list[FleetEnrolment]
    refused: list[RefusedEnrolment]
    allowed: list[RefusedEnrolment]
    live: LiveNodes
    kind: Kind
    steps: list[Step]
    script: InstallScript | None
    problem: str
    kinds: tuple[Kind, ...] = KINDS


def live_nodes(visitor: Visitor) -> LiveNodes:
    """Return the new nodes of the lab."""
    return LiveNodes(new_nodes(visitor.lab, visitor.now))


def fleet_page(visitor: Visitor, kind_key: str) -> FleetPage:
    """Return tokens and decisions of the lab, and the commands for a kind of node."""
    lab, now = visitor.lab, visitor.now
    problem = install_problem()
    script = None if problem else install_script()
    kind = next((kind for kind in KINDS if kind.key == kind_key), KINDS[0])
    return FleetPage(
        tokens=list(active_fleet_tokens(lab, now)[:MAX_LISTED]),
        waiting=list(waiting_enrolments(lab)[:MAX_LISTED]),
        refused=list(refused_enrolments(lab, now)[:MAX_LISTED]),
        allowed=list(allowed_enrolments(lab, now)[:MAX_LISTED]),
        live=live_nodes(visitor),
        kind=kind,
        steps=kind.steps(script) if script else [],
        script=script,
        problem=problem,
    )
