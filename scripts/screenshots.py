"""Takes a picture of each page into docs/pictures, from the seeded lab served on a private port
(needs Chromium).
"""

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.environment import installation_environment  # noqa: E402
from tests.services import chromium  # noqa: E402
from tests.services.process import free_port  # noqa: E402

OUT = ROOT / "docs" / "pictures"
LIMIT = 200_000
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 320, "height": 640}


def prepare(port: int) -> tuple[str, dict[str, str]]:
    """Seed a lab in the data directory at hand; return a sign-in link's path and the addresses
    worth a picture.
    """
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    call_command("load_data", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    from apps.accounts.choices import CodePurpose
    from apps.accounts.services.labs import issue_code
    from apps.carbon.figures.figure_query import iso_hour
    from apps.core.clock import now_us
    from apps.preflight.models import DuplicateFinding
    from tests.seeded_artifacts import register_artifacts, register_hardware
    from tests.seeded_lab import DAYS, seed

    now = now_us()
    seeded = seed(now=now)
    card = register_hardware(seeded, now=now)
    model, plan = register_artifacts(seeded, now=now)
    hour = now // 3_600_000_000
    run = (
        seeded.lab.runs.filter(state="finished", project__isnull=False)
        .order_by("-started_us")
        .first()
    )
    assert run is not None
    repeat = (
        DuplicateFinding.objects.filter(lab=seeded.lab)
        .select_related("run", "original")
        .order_by("pk")
        .first()
    )
    assert repeat is not None
    figure = (
        f"metric=emission_ug&subject=project:vision&from={iso_hour(hour - DAYS * 24)}&"
        f"to={iso_hour(hour)}"
    )
    pages = {
        "overview": "/?period=30d",
        "projects": "/projects/",
        "project": "/projects/vision/",
        "runs": "/runs/",
        "run": f"/runs/{run.uuid}/",
        "compare": f"/runs/compare/?run={repeat.run.uuid}&run={repeat.original.uuid}",
        "duplicates": "/runs/duplicates/",
        "artifacts": "/artifacts/",
        "artifact": f"/artifacts/{model.digest}/",
        "storage": "/artifacts/storage/",
        "plans": "/artifacts/cleanup/",
        "plan": f"/artifacts/cleanup/{plan.uuid}/",
        "holds": "/artifacts/holds/",
        "nodes": "/nodes/",
        "node": f"/nodes/{seeded.nodes[0].uuid}/",
        "enrol": "/nodes/enrol/",
        "sites": "/sites/",
        "site": f"/sites/{seeded.lab.sites.order_by('id')[0].pk}/",
        "assets": "/assets/",
        "asset": f"/assets/{card.pk}/",
        "keep": f"/assets/{card.pk}/replacement/",
        "fleet": "/assets/fleet/",
        "ranking": "/assets/ranking/",
        "catalog": "/catalog/",
        "scopes": "/scopes/",
        "explain": f"/explain/?{figure}",
        "unattributed": "/unattributed/?period=30d",
        "rules": "/rules/",
        "idle": "/settings/idle/",
        "people": "/people/?period=30d",
        "tokens": "/tokens/",
        "audit": "/audit/",
        "lab": "/settings/",
    }
    code = issue_code(purpose=CodePurpose.SIGN_IN, now=now, lab=seeded.lab, user=seeded.owner)
    return f"/signin/?code={code}", pages


@contextmanager
def served(port: int) -> Iterator[str]:
    """Serve the pages with the real web server."""
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "labcarbon.wsgi",
        "--config",
        "python:labcarbon.gunicorn",
    ]
    process = subprocess.Popen(
        [*command, "--bind", f"127.0.0.1:{port}", "--threads", "4", "--log-level", "warning"],
        cwd=ROOT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"{url}/livez", timeout=2):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def save(page: object, name: str) -> None:
    """Write one picture, small enough for a repository."""
    path = OUT / f"{name}.png"
    page.screenshot(path=path)  # type: ignore[attr-defined]
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}  {size // 1024} kB")
    if size > LIMIT:
        raise SystemExit(f"{path} is larger than {LIMIT // 1000} kB")


def take(url: str, sign_in: str, pages: dict[str, str]) -> None:
    """Sign in and take the pictures: each page wide and light, some also dark and narrow."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium.launch_options())
        context = browser.new_context(viewport=WIDE, reduced_motion="reduce")
        page = context.new_page()
        page.goto(url + sign_in)
        page.click("main button[type=submit]")
        page.wait_for_load_state()
        state = context.storage_state()
        looks = [
            ("", WIDE, "light", pages),
            ("-dark", WIDE, "dark", pages),
            ("-narrow", NARROW, "light", pages),
        ]
        for suffix, viewport, scheme, names in looks:
            paths = (
                names
                if not suffix
                else {
                    name: names[name] for name in ("overview", "explain", "run", "artifact", "plan")
                }
            )
            look = browser.new_context(
                storage_state=state, viewport=viewport, color_scheme=scheme, reduced_motion="reduce"
            )
            page = look.new_page()
            for name, address in paths.items():
                page.goto(url + address)
                page.wait_for_load_state("networkidle")
                page.wait_for_timeout(500)
                save(page, name + suffix)
            look.close()
        browser.close()


def main() -> None:
    """Seed, serve, take pictures."""
    if not chromium.program():
        raise SystemExit("Chromium is needed: apt-get install chromium-headless-shell")
    OUT.mkdir(parents=True, exist_ok=True)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="labcarbon-pictures-") as data_dir:
        for name in [name for name in os.environ if name.startswith("LABCARBON_")]:
            del os.environ[name]
        os.environ.update(
            installation_environment(data_dir),
            LABCARBON_PORT=str(port),
            DJANGO_SETTINGS_MODULE="labcarbon.settings",
        )
        sign_in, pages = prepare(port)
        with served(port) as url:
            take(url, sign_in, pages)


if __name__ == "__main__":
    main()
