"""`make run`: everything on this one machine. SQLite, one web process, one worker, a collector watching this machine."""

import argparse
import ctypes
import fcntl
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from django.urls import reverse

from labcarbon.env import BASE_DIR, EnvironmentProblem, read_environment

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_STOP_S = 15.0
_BACKOFF_MAX_S = 60.0


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the kernel to end this process with signal ``number`` when its parent is gone, however it went."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


@dataclass
class Child:
    """One supervised process: started again, with back-off, when it ends unasked."""

    name: str
    command: Sequence[str]
    log_path: Path
    environ: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    not_before: float = 0.0
    started: float = field(default=0.0)

    def start(self) -> None:
        """Start the process; its output goes to the log file."""
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environ},
                start_new_session=True,  # Ctrl-C reaches the launcher alone, which stops them in order
                preexec_fn=die_with_parent,
            )
        self.started = time.monotonic()

    def watch(self) -> str:
        """Start the process again if it ended and its time has come; return what to tell the user, or ''."""
        if self.process is None:
            if time.monotonic() >= self.not_before:
                self.start()
            return ""
        code = self.process.poll()
        if code is None:
            if self.failures and time.monotonic() - self.started > _BACKOFF_MAX_S:
                self.failures = 0
            return ""
        self.process = None
        self.failures += 1
        wait = min(2.0 ** min(self.failures, 6), _BACKOFF_MAX_S)
        self.not_before = time.monotonic() + wait
        return f"The {self.name} ended (exit code {code}); starting it again in {wait:.0f} s. Its words: {self.log_path}"

    def stop(self) -> None:
        """Ask the process to end; after a while, make it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            log.warning("the %s did not stop within %.0f s", self.name, _STOP_S)
            self.process.kill()
            self.process.wait()


BIN = Path(sys.executable).parent
_READY_S = 60.0
_ENROL_EVERY_S = 10.0


class CannotStart(Exception):
    """A mistake that the user can mend; the text says how."""


def _keep_secret(path: Path, text: str) -> None:
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)


def make_data_dir(data_dir: Path) -> None:
    """Create the data directory with the secrets of this installation (others may pass through to the socket)."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        data_dir.chmod(0o711)
        (data_dir / "logs").mkdir(exist_ok=True)
        _keep_secret(data_dir / "secret_key", secrets.token_urlsafe(50))
        _keep_secret(data_dir / "token_peppers", f"1:{secrets.token_hex(32)}")
    except OSError as error:
        raise CannotStart(
            f"The data directory {data_dir} cannot be written ({error.strerror}). "
            f"Name another one: LABCARBON_DATA=$HOME/labcarbon make run"
        ) from error


def lock_data_dir(data_dir: Path, url: str) -> TextIO:
    """Hold the data directory for this process; two web servers would fight over one SQLite file."""
    file = (data_dir / "launch.lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise CannotStart(
            f"LabCarbon already runs with the data in {data_dir}: open {url}. "
            f"For a second one: LABCARBON_DATA=/another/folder LABCARBON_PORT=8001 make run"
        ) from error
    return file


def check_port(port: int) -> None:
    """Raise CannotStart when the port cannot be had."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotStart(
                f"Port {port} cannot be used ({error.strerror}). Choose another: LABCARBON_PORT={port + 1} make run"
            ) from error


def prepare(data_dir: Path) -> None:
    """Bring the database and the shipped tables up to date; say so in logs/prepare.log."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
    os.umask(0o077)
    import django
    from django.core.management import CommandError, call_command

    from apps.core.management.base import CHECK_TAG
    from labcarbon.staticfiles import collect

    with (data_dir / "logs" / "prepare.log").open("a", encoding="utf-8") as output, redirect_stdout(output):
        django.setup()
        try:
            call_command("check", tags=[CHECK_TAG])  # told before the pages are loaded for the other checks
            call_command("check")
            call_command("migrate", interactive=False, verbosity=1)
            call_command("load_data")
        except CommandError as error:
            raise CannotStart(str(error)) from error
        collect()


def children(data_dir: Path, port: int) -> list[Child]:
    """Return what runs, in the order in which it starts."""
    logs = data_dir / "logs"
    python = sys.executable
    web = [python, "-m", "gunicorn", "labcarbon.wsgi", "--config", "python:labcarbon.gunicorn"]
    web += ["--bind", f"127.0.0.1:{port}", "--workers", "1", "--threads", "4"]
    web += [
        "--no-control-socket",
        "--worker-class",
        "gthread",
        "--worker-tmp-dir",
        "/dev/shm" if Path("/dev/shm").is_dir() else str(data_dir),
    ]
    return [
        Child("web server", web, logs / "web.log", {}),
        Child("worker", [python, str(BASE_DIR / "manage.py"), "worker"], logs / "worker.log", {}),
        Child("collector", [str(BIN / "labcarbon-collect"), "daemon"], logs / "collector.log", {}),
    ]


def wait_until_ready(url: str, web: Child) -> None:
    """Wait for the web server's first answer."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if web.process is None or web.process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/livez", timeout=2):  # noqa: S310
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise CannotStart(f"The web server did not start. Its last words are in {web.log_path}")


def first_link(url: str) -> str:
    """Return the line with the one-time link: set-up at first, sign-in for the local owner later."""
    from apps.accounts.choices import CodePurpose, Role
    from apps.accounts.models import Membership
    from apps.accounts.selectors import is_set_up
    from apps.accounts.services.labs import issue_code
    from apps.core.clock import now_us

    if not is_set_up():
        return f"Set up your lab (once): {url}{reverse('setup')}?code={issue_code(purpose=CodePurpose.SETUP, now=now_us())}"
    owner = Membership.objects.filter(role=Role.ADMIN).select_related("user", "lab").order_by("id").first()
    if owner is None:
        return f"Sign in: {url}{reverse('account_login')}"
    code = issue_code(purpose=CodePurpose.SIGN_IN, now=now_us(), lab=owner.lab, user=owner.user)
    return f"Sign in as {owner.user.get_username()} (once, within 15 minutes): {url}{reverse('sign-in')}?code={code}"


def enrol_here(url: str) -> bool:
    """Enrol this machine's collector in the lab; return whether it is. What failed is tried again."""
    from apps.accounts.choices import CodePurpose
    from apps.accounts.models import Lab
    from apps.accounts.services.labs import issue_code
    from apps.core.clock import now_us

    lab = Lab.objects.order_by("id")[0]
    code = issue_code(purpose=CodePurpose.ENROL, now=now_us(), lab=lab)
    done = subprocess.run(
        [str(BIN / "labcarbon-collect"), "enrol", url], input=code + "\n", text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        print(
            f"This machine's collector could not be enrolled yet: {done.stderr.strip()} "
            f"It is tried again every {_ENROL_EVERY_S:.0f} s; by hand: labcarbon-collect enrol {url}",
            flush=True,
        )
    return done.returncode == 0


def _enrolled(data_dir: Path) -> bool:
    return (data_dir / "collector" / "node-token").exists()


def supervise(running: list[Child], data_dir: Path, url: str, stop: threading.Event) -> None:
    """Keep the children running until told to stop; enrol this machine once the lab is set up."""
    from apps.accounts.selectors import is_set_up

    enrolled, enrol_at = _enrolled(data_dir), 0.0
    while not stop.wait(1.0):
        for child in running:
            message = child.watch()
            if message:
                print(message, flush=True)
        if not enrolled and time.monotonic() >= enrol_at and is_set_up():
            enrolled, enrol_at = enrol_here(url), time.monotonic() + _ENROL_EVERY_S


def run() -> None:
    """Start everything, say where, and stop everything on Ctrl-C."""
    environment = read_environment()
    data_dir, url = environment.data_dir, environment.url
    make_data_dir(data_dir)
    lock = lock_data_dir(data_dir, url)
    check_port(environment.port)
    print("Preparing the database", flush=True)
    prepare(data_dir)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    running = children(data_dir, environment.port)
    try:
        running[0].start()
        wait_until_ready(f"http://127.0.0.1:{environment.port}", running[0])
        for child in running[1:]:
            child.start()
        print(f"Logs: {data_dir / 'logs'}  ·  stop with Ctrl-C", flush=True)
        print(first_link(url), flush=True)
        print(f"LabCarbon is ready at {url}", flush=True)
        supervise(running, data_dir, url, stop)
        print("\nStopping", flush=True)
    finally:
        for child in reversed(running):
            child.stop()
        lock.close()


def main() -> int:
    """Parse the command line; mistakes that a user can mend end with one line."""
    parser = argparse.ArgumentParser(prog="python -m labcarbon.launch", description=__doc__)
    parser.add_argument("--prepare", action="store_true", help="only prepare the data directory and the database")
    options = parser.parse_args()
    try:
        if options.prepare:
            environment = read_environment()
            make_data_dir(environment.data_dir)
            prepare(environment.data_dir)
        else:
            run()
    except (CannotStart, EnvironmentProblem) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # Ctrl-C before there was anything to stop
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
