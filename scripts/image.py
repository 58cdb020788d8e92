"""Builds the server's image, looks into it, starts it once and stops it (called by
scripts/build_image.sh).
"""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from image_base import cache_dir, forget
from image_engine import Buildah, Docker, Engine
from image_findings import findings
from image_host import Missing, apt_conf, ca_bundle, local_folders, pip_conf, pip_settings

from tests.services.process import free_port

UID = 10001
ENTRY, HEALTH = "/srv/labcarbon/docker/entrypoint.sh", "/srv/labcarbon/docker/healthcheck.py"
READY_S = 300.0
STOP_S = 30.0


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is done and how long it took."""
    print(f"{what} …", flush=True)
    started = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - started:.1f} s", flush=True)


def demand(right: bool, wrong: str) -> None:
    if not right:
        raise SystemExit(f"The image is not right: {wrong}")


def build(engine: Engine, tag: str) -> list[str]:
    """Build with this machine's pip and apt settings as secrets; return the words of theirs that
    must not leak.
    """
    settings = pip_settings()
    with tempfile.TemporaryDirectory(prefix="labcarbon-build-") as folder:
        given = {"pip-conf": Path(folder) / "pip.conf", "apt-conf": Path(folder) / "apt.conf"}
        given["pip-conf"].write_text(pip_conf(settings), encoding="utf-8")
        given["apt-conf"].write_text(apt_conf(), encoding="utf-8")
        bundle = ca_bundle()
        if bundle:
            given["ca-bundle"] = bundle
        engine.build(tag, given, local_folders(settings))
    return " ".join(
        settings.get(key, "") for key in ("index-url", "extra-index-url", "find-links", "proxy")
    ).split()


def look(engine: Engine, tag: str, secrets_: list[str]) -> None:
    """Refuse an image with build tools, secrets, a root user or a program that its own user
    could change.
    """
    config = engine.config(tag)
    with engine.files(tag) as root:
        wrong = findings(root, config, secrets_)
        leftovers = [path.name for path in (root / "opt").iterdir() if path.name != "labcarbon"]
        size = sum(
            path.lstat().st_size
            for path in root.rglob("*")
            if path.is_file() and not path.is_symlink()
        )
    wrong += [f"/opt/{name} is of the build machine" for name in leftovers]
    demand(config["Entrypoint"] == [ENTRY], f"its entry point is {config['Entrypoint']}")
    demand(not wrong, "\n  ".join(["", *wrong]))
    print(f"user {config['User']}, {size / 1e6:.0f} MB of files, no build tools, no secrets")


def web_processes(port: int) -> dict[int, int]:
    """Return {pid: uid} of the gunicorn processes that were started for ``port``."""
    processes = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if {b"labcarbon.wsgi", f"127.0.0.1:{port}".encode()} <= set(words) and words[
                0
            ].startswith(b"/opt/labcarbon/"):
                processes[int(entry.name)] = entry.stat().st_uid
        except OSError:
            continue
    return processes


def answer(url: str) -> int:
    """Return the HTTP status of ``url``, 0 while nobody listens."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait_for(url: str, web: "subprocess.Popen[bytes]") -> int:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and web.poll() is None:
        status = answer(url)
        if status:
            return status
        time.sleep(0.2)
    raise SystemExit(
        f"The web server in the image did not answer {url}; it says what is wrong above."
    )


def stop(web: "subprocess.Popen[bytes]", pids: dict[int, int]) -> None:
    """Ask gunicorn's master, the oldest of its processes, to end, as an engine would."""
    if pids:
        os.kill(min(pids), signal.SIGTERM)
    try:
        web.wait(STOP_S)
    except subprocess.TimeoutExpired:
        web.kill()
        raise SystemExit(
            f"The web server in the image did not end within {STOP_S:.0f} s of SIGTERM"
        ) from None


def try_out(engine: Engine, tag: str) -> None:
    """Start migrate and web as an engine would, ask them over loopback, and look at who they
    are.
    """
    port = free_port()
    environ = {
        "LABCARBON_SECRET_KEY": secrets.token_urlsafe(50),
        "LABCARBON_TOKEN_PEPPERS": f"1:{secrets.token_hex(32)}",
        "LABCARBON_BIND": "127.0.0.1",
        "LABCARBON_PORT": str(port),
    }
    with tempfile.TemporaryDirectory(prefix="labcarbon-image-data-") as folder:
        data = Path(folder)
        os.chown(data, UID, UID)
        refused = subprocess.run(
            engine.command(tag, data, {}, [ENTRY, "web"]),
            capture_output=True,
            text=True,
            check=False,
        )
        demand(
            refused.returncode != 0 and "labcarbon.E001" in refused.stderr,
            f"it starts without a secret key: {refused}",
        )
        with step("migrate"):
            subprocess.run(
                engine.command(tag, data, environ, [ENTRY, "migrate"]),
                stdout=subprocess.DEVNULL,
                check=True,
            )
        owner = (data / "labcarbon.sqlite3").stat().st_uid
        demand(owner == UID, f"migrate ran as uid {owner}, not {UID}")
        subprocess.run(engine.command(tag, data, environ, [ENTRY, "worker", "--once"]), check=True)
        web = subprocess.Popen(engine.command(tag, data, environ, [ENTRY, "web"]))
        pids: dict[int, int] = {}
        try:
            with step("web starts and answers /livez"):
                status = wait_for(f"http://127.0.0.1:{port}/livez", web)
            pids = web_processes(port)
            demand(status == 200, f"/livez answered {status}")
            demand(
                bool(pids) and set(pids.values()) == {UID},
                f"the web server's processes are {pids} (pid: uid)",
            )
            subprocess.run(engine.command(tag, data, environ, [HEALTH]), check=True)
            paths = ("/readyz", "/", "/static/plotly/plotly.min.js")
            pages = {path: answer(f"http://127.0.0.1:{port}{path}") for path in paths}
            demand(all(200 <= status < 400 for status in pages.values()), f"answers: {pages}")
            print(f"answers: {pages}, processes (pid: uid): {pids}")
        finally:
            with step("web stops"):
                stop(web, pids or web_processes(port))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("buildah", "docker"), required=True)
    parser.add_argument("--tag", default="localhost/labcarbon:latest")
    parser.add_argument("--fresh", action="store_true", help="use nothing of an earlier build")
    options = parser.parse_args()
    cache = cache_dir()
    if options.fresh:
        forget(cache)
    engine: Engine = Buildah(cache) if options.engine == "buildah" else Docker()
    try:
        with step(f"build {options.tag} with {options.engine}"):
            secrets_ = build(engine, options.tag)
        with step("look into it"):
            look(engine, options.tag, secrets_)
        with step("try it out"):
            try_out(engine, options.tag)
    except Missing as missing:
        raise SystemExit(str(missing)) from missing
    finally:
        engine.close()
    print(f"The image {options.tag} is built and works (kept in {cache}).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
