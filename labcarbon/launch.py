"""`make run`: starts LabCarbon on this machine with SQLite, one web process, one worker and a
collector.
"""

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
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from django.urls import reverse

from labcarbon.env import BASE_DIR, ConfigurationError, read_environment
from labcarbon.log_rotation import rotate_all

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_STOP_TIMEOUT_S = 15.0
_BACKOFF_MAX_S = 60.0


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Let the kernel send signal ``number`` to this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


@dataclass
class SupervisedProcess:
    """A supervised process. It is restarted with back-off when it ends unexpectedly."""

    name: str
    command: Sequence[str]
    log_path: Path
    environ: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    restart_at: float = 0.0
    started: float = field(default=0.0)

    def start(self) -> None:
        """Start the process. Its output goes to the log file."""
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environ},
                # Ctrl-C reaches only the launcher, which stops the processes in order.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.started = time.monotonic()

    def restart_if_ended(self) -> str:
        """Restart the process if it ended and its back-off is over. Returns a message for the user,
        or ''.
        """
        if self.process is None:
            if time.monotonic() >= self.restart_at:
                self.start()
            return ""
        code = self.process.poll()
        if code is None:
            if self.failures and time.monotonic() - self.started > _BACKOFF_MAX_S:
                self.failures = 0
            return ""
        self.process = None
        self.failures += 1
        delay_s = min(2.0 ** min(self.failures, 6), _BACKOFF_MAX_S)
        self.restart_at = time.monotonic() + delay_s
        return (
            f"The {self.name} ended (exit code {code}); restarting it in {delay_s:.0f} s. Log: "
            f"{self.log_path}"
        )

    def stop(self) -> None:
        """Terminate the process, and kill it after a timeout."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            log.warning("the %s did not stop within %.0f s", self.name, _STOP_TIMEOUT_S)
            self.process.kill()
            self.process.wait()


BIN = Path(sys.executable).parent
_READY_TIMEOUT_S = 60.0
_ENROL_INTERVAL_S = 10.0
_UPKEEP_INTERVAL_S = 30.0
_WRITABLE = "Make the server's user the owner of its files, and check that its disk has free space."


class StartupError(Exception):
    """A start-up problem that the user can fix. The text says how."""


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _write_secret(path: Path, text: str) -> None:
    """Create a file with a secret if it is missing, or if a crash left it empty."""
    if _has_content(path):
        return
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        path.unlink(missing_ok=True)
        with suppress(FileExistsError):  # another start was faster
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def create_data_dir(data_dir: Path) -> None:
    """Create the data directory with the secrets of this installation. Other users can traverse it
    to reach the socket. Raises StartupError if an existing database lost its secret.
    """
    peppers_path = data_dir / "token_peppers"
    is_lost = (data_dir / "labcarbon.sqlite3").exists() and not _has_content(peppers_path)
    if is_lost and "LABCARBON_TOKEN_PEPPERS" not in os.environ:
        raise StartupError(
            f"{peppers_path} is missing or empty, but the database exists. Without its content no "
            "token and no second factor is valid. Put the file back from the backup of the keys "
            "(manage.py backup --keys).\n"
            "To continue without it, create a new one, and then enrol all nodes and issue all "
            f"tokens again: (umask 077; echo 1:$(openssl rand -hex 32) > {peppers_path})"
        )
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        data_dir.chmod(0o711)
        (data_dir / "logs").mkdir(exist_ok=True)
        _write_secret(data_dir / "secret_key", secrets.token_urlsafe(50))
        _write_secret(peppers_path, f"1:{secrets.token_hex(32)}")
    except OSError as error:
        raise StartupError(
            f"The data directory {data_dir} cannot be written ({error.strerror}). {_WRITABLE} "
            "For a new installation, set another one: LABCARBON_DATA=$HOME/labcarbon make run"
        ) from error


def lock_data_dir(data_dir: Path, url: str) -> TextIO:
    """Lock the data directory for this process. Two web servers must not share one SQLite file."""
    file = (data_dir / "launch.lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StartupError(
            f"LabCarbon is already running with the data in {data_dir}: open {url}. "
            "For a second installation: LABCARBON_DATA=/another/folder LABCARBON_PORT=8001 make "
            "run"
        ) from error
    return file


def check_port(port: int) -> None:
    """Raise StartupError if the port is not available."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise StartupError(
                f"Port {port} cannot be used ({error.strerror}). Choose another: "
                f"LABCARBON_PORT={port + 1} make run"
            ) from error


def prepare(data_dir: Path) -> None:
    """Migrate the database and load the shipped tables. Output goes to logs/prepare.log."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
    os.umask(0o077)
    import django
    from django.core.management import CommandError, call_command
    from django.db import Error

    from apps.core.management.base import CHECK_TAG
    from labcarbon.command_errors import explain_database_error
    from labcarbon.static_collection import collect_static

    try:
        with (
            (data_dir / "logs" / "prepare.log").open("a", encoding="utf-8") as output,
            redirect_stdout(output),
        ):
            django.setup()
            # reported before the pages are loaded for the other checks
            call_command("check", tags=[CHECK_TAG])
            call_command("check")
            call_command("migrate", interactive=False, verbosity=1)
            call_command("load_data")
            collect_static()
    except CommandError as error:
        raise StartupError(str(error)) from error
    except Error as error:
        text = explain_database_error(error)
        if not text:
            raise
        raise StartupError(text) from error
    except OSError as error:
        raise StartupError(
            f"The data directory {data_dir} cannot be written ({error}). {_WRITABLE}"
        ) from error


def create_processes(
    data_dir: Path, port: int, *, is_demo: bool = False
) -> list[SupervisedProcess]:
    """Return the processes in start order. A demo uploads made-up data instead of a collector's."""
    logs = data_dir / "logs"
    python = sys.executable
    web = [python, "-m", "gunicorn", "labcarbon.wsgi", "--config", "python:labcarbon.gunicorn"]
    web += ["--bind", f"127.0.0.1:{port}", "--workers", "1", "--threads", "4"]
    web += [
        "--no-control-socket",
        "--worker-tmp-dir",
        "/dev/shm" if Path("/dev/shm").is_dir() else str(data_dir),
    ]
    processes = [
        SupervisedProcess("web server", web, logs / "web.log", {}),
        SupervisedProcess(
            "worker", [python, str(BASE_DIR / "manage.py"), "worker"], logs / "worker.log", {}
        ),
    ]
    if is_demo:
        uploads = [python, "-m", "labcarbon.demo.live"]
        processes.append(SupervisedProcess("demo nodes", uploads, logs / "nodes.log", {}))
    else:
        collector = [str(BIN / "labcarbon-collect"), "daemon"]
        processes.append(SupervisedProcess("collector", collector, logs / "collector.log", {}))
    return processes


def wait_until_ready(url: str, web: SupervisedProcess) -> None:
    """Wait for the first response of the web server."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
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
    raise StartupError(f"The web server did not start. See its log: {web.log_path}")


def sign_in_message(url: str) -> str:
    """Return a line with a one-time link: for set-up at first, later for the local owner's
    sign-in.
    """
    from apps.accounts.choices import CodePurpose, Role
    from apps.accounts.models import Membership
    from apps.accounts.selectors import is_set_up
    from apps.accounts.services.labs import issue_code
    from apps.core.clock import now_us

    if not is_set_up():
        return (
            "Set up your lab (once): "
            f"{url}{reverse('setup')}?code={issue_code(purpose=CodePurpose.SETUP, now=now_us())}"
        )
    owner = (
        Membership.objects.filter(role=Role.ADMIN)
        .select_related("user", "lab")
        .order_by("id")
        .first()
    )
    if owner is None:
        return f"Sign in: {url}{reverse('account_login')}"
    code = issue_code(purpose=CodePurpose.SIGN_IN, now=now_us(), lab=owner.lab, user=owner.user)
    return (
        f"Sign in as {owner.user.get_username()} (once, within 15 minutes): "
        f"{url}{reverse('sign-in')}?code={code}"
    )


def enrol_this_machine(url: str) -> bool:
    """Enrol this machine's collector in the lab. Returns whether it succeeded; a failure is
    retried.
    """
    from apps.accounts.choices import CodePurpose
    from apps.accounts.models import Lab
    from apps.accounts.services.labs import issue_code
    from apps.core.clock import now_us

    lab = Lab.objects.order_by("id")[0]
    code = issue_code(purpose=CodePurpose.ENROL, now=now_us(), lab=lab)
    result = subprocess.run(
        [str(BIN / "labcarbon-collect"), "enrol", url],
        input=code + "\n",
        text=True,
        capture_output=True,
        check=False,
    )
    if result.returncode != 0:
        print(
            f"This machine's collector could not be enrolled yet: {result.stderr.strip()} "
            f"The next attempt is in {_ENROL_INTERVAL_S:.0f} s. To enrol it manually: "
            f"labcarbon-collect enrol {url}",
            flush=True,
        )
    return result.returncode == 0


def _is_enrolled(data_dir: Path) -> bool:
    return (data_dir / "collector" / "node-token").exists()


def supervise(
    processes: list[SupervisedProcess],
    data_dir: Path,
    url: str,
    stop: threading.Event,
    *,
    enrols_machine: bool = True,
) -> None:
    """Restart ended processes until ``stop`` is set. Enrols this machine once the lab is set up,
    unless it has no collector.
    """
    from django.db import Error, close_old_connections

    from labcarbon.command_errors import explain_database_error

    upkeep = _Upkeep(data_dir)
    enrolment = _Enrolment(data_dir, url) if enrols_machine else None
    while not stop.wait(1.0):
        for process in processes:
            message = process.restart_if_ended()
            if message:
                print(message, flush=True)
        close_old_connections()
        try:
            if enrolment is not None:
                enrolment.step()
            message = upkeep.step()
        except Error as error:
            message = explain_database_error(error)
            if not message:
                raise
        upkeep.report(message)


class _Enrolment:
    """Enrols this machine as soon as the lab is set up."""

    def __init__(self, data_dir: Path, url: str) -> None:
        self._url, self._is_done, self._due_s = url, _is_enrolled(data_dir), 0.0

    def step(self) -> None:
        from apps.accounts.selectors import is_set_up

        if not self._is_done and time.monotonic() >= self._due_s and is_set_up():
            self._is_done = enrol_this_machine(self._url)
            self._due_s = time.monotonic() + _ENROL_INTERVAL_S


class _Upkeep:
    """Rotates log files, and prints a problem of the database when it begins and ends."""

    def __init__(self, data_dir: Path) -> None:
        self._logs, self._due_s, self._reported = data_dir / "logs", 0.0, ""

    def step(self) -> str:
        """Return the present problem of the database, or ''."""
        from apps.core.database.health import current_problem

        if time.monotonic() < self._due_s:
            return self._reported
        self._due_s = time.monotonic() + _UPKEEP_INTERVAL_S
        try:
            rotate_all(self._logs)
        except OSError as error:
            log.warning("log files cannot be rotated: %s", error)
        reason = current_problem()
        return reason.explain() if reason else ""

    def report(self, message: str) -> None:
        """Print ``message`` unless it was printed last."""
        if message != self._reported:
            print(message or "The database can be used again.", flush=True)
            self._reported = message


def _sign_in_message(url: str) -> str:
    from django.db import Error

    from labcarbon.command_errors import explain_database_error

    try:
        return sign_in_message(url)
    except Error as error:
        text = explain_database_error(error)
        if not text:
            raise
        raise StartupError(text) from error


def _started_message(url: str) -> str:
    """Return that LabCarbon is ready, or why it runs without being ready."""
    from apps.core.database.health import current_problem

    reason = current_problem()
    if reason is None:
        return f"LabCarbon is ready at {url}"
    return f"LabCarbon runs at {url}, but is not ready. {reason.explain()}"


def run(
    *,
    before: Callable[[Path], None] | None = None,
    after: Callable[[Path], None] | None = None,
    is_only_prepared: bool = False,
) -> None:
    """Start everything, print the URL, and stop everything on Ctrl-C. ``before`` and ``after``: a
    demo's steps around the preparation of the locked data directory.
    """
    environment = read_environment()
    data_dir, url = environment.data_dir, environment.url
    create_data_dir(data_dir)
    lock = lock_data_dir(data_dir, url)
    if not is_only_prepared:
        check_port(environment.port)
    if before:
        before(data_dir)
    print("Preparing the database", flush=True)
    prepare(data_dir)
    if after:
        after(data_dir)
    if is_only_prepared:
        lock.close()
        return
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    processes = create_processes(data_dir, environment.port, is_demo=environment.is_demo)
    try:
        processes[0].start()
        wait_until_ready(f"http://127.0.0.1:{environment.port}", processes[0])
        for process in processes[1:]:
            process.start()
        print(f"Logs: {data_dir / 'logs'}  ·  stop with Ctrl-C", flush=True)
        print(_sign_in_message(url), flush=True)
        print(_started_message(url), flush=True)
        supervise(processes, data_dir, url, stop, enrols_machine=not environment.is_demo)
        print("\nStopping", flush=True)
    finally:
        for process in reversed(processes):
            process.stop()
        lock.close()


def main() -> int:
    """Parse the command line. Problems that the user can fix end with one line."""
    parser = argparse.ArgumentParser(prog="python -m labcarbon.launch", description=__doc__)
    parser.add_argument(
        "--prepare", action="store_true", help="only prepare the data directory and the database"
    )
    options = parser.parse_args()
    try:
        if options.prepare:
            environment = read_environment()
            create_data_dir(environment.data_dir)
            prepare(environment.data_dir)
        else:
            run()
    except (StartupError, ConfigurationError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # Ctrl-C before anything was started
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
