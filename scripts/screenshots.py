"""Takes pictures of pages into docs/pictures, from a demo lab in a temporary folder, served on a
private port (needs Chromium).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from labcarbon.demo.__main__ import set_environment  # noqa: E402
from tests.services import chromium  # noqa: E402
from tests.services.process import free_port  # noqa: E402

OUT = ROOT / "docs" / "pictures"
LIMIT = 250_000
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 375, "height": 760}
# suffix of the name, size, theme, pages (all without names)
LOOKS = (
    ("", WIDE, "light", ()),
    ("-dark", WIDE, "dark", ("overview", "run", "explain")),
    ("-narrow", NARROW, "light", ("overview", "run", "explain")),
)
_SIGN_IN = re.compile(r"https?://\S+/signin/\?code=\S+")


@contextmanager
def running_demo(folder: Path, port: int) -> Iterator[str]:
    """Run `make demo` in ``folder``. Yield its sign-in link."""
    command = [sys.executable, "-m", "labcarbon.demo", "--data", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        link = ""
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := _SIGN_IN.search(line):
                link = found[0]
            if link and "ready" in line:
                break
        else:
            raise SystemExit("The demo did not start.")
        yield link
    finally:
        process.terminate()
        process.communicate()


def pages() -> dict[str, str]:
    """Return the address of each picture by its name, from the database of the demo."""
    import django

    django.setup()
    from django.db.models import Count
    from django.urls import reverse

    from apps.accounts.models import User
    from apps.artifacts.models import Artifact, CleanupPlan
    from apps.assets.models import Asset
    from apps.carbon.figures.figure_query import iso_hour
    from apps.core.clock import now_us
    from apps.core.units import US_PER_HOUR
    from apps.fleet.models import Node
    from apps.runs.models import Run

    hour = now_us() // US_PER_HOUR
    node = Node.objects.get(hostname="gpu-01")
    finished = Run.objects.filter(node=node, state="finished", sweep="", project__isnull=False)
    run = finished.order_by("-started_us")[0]
    models = Artifact.objects.filter(kind="model").annotate(uses=Count("run_edges"))
    figure = {
        "metric": "emission_ug",
        "subject": "project:cell-atlas",
        "from": iso_hour(hour - 30 * 24),
        "to": iso_hour(hour),
    }
    query = "&".join(f"{name}={value}" for name, value in figure.items())
    return {
        "overview": "/?period=30d",
        "runs": reverse("runs"),
        "run": reverse("run", args=[run.uuid]),
        "duplicates": reverse("duplicates"),
        "artifact": reverse("artifact", args=[models.order_by("-uses", "name")[0].digest]),
        "storage": reverse("artifact-storage"),
        "plan": reverse("cleanup-plan", args=[CleanupPlan.objects.get().uuid]),
        "live": reverse("node-live", args=[node.uuid]),
        "enrolment": reverse("node-add"),
        "asset": reverse("asset", args=[Asset.objects.get(serial="DEMO-GPU-01-1").pk]),
        "scopes": f"{reverse('scopes')}?period=30d",
        "explain": f"{reverse('explain')}?{query}",
        "unattributed": f"{reverse('unattributed')}?period=30d",
        "erase": reverse("person-erase", args=[User.objects.get(username="dora").pk]),
        "search": f"{reverse('search')}?q=cell",
        "help": reverse("help"),
    }


def save(page: Any, name: str) -> None:
    """Write one picture, small enough for a repository."""
    path = OUT / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}  {size // 1024} kB")
    if size > LIMIT:
        raise SystemExit(f"{path} is larger than {LIMIT // 1000} kB")


def take(url: str, sign_in: str, addresses: Mapping[str, str]) -> set[str]:
    """Sign in and take the pictures. Return their names."""
    from playwright.sync_api import sync_playwright

    taken = set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium.launch_options())
        page = browser.new_page()
        page.goto(sign_in)
        page.click("main button[type=submit]")
        page.wait_for_load_state()
        state = page.context.storage_state()
        for suffix, size, scheme, names in LOOKS:
            look = browser.new_context(
                storage_state=state, viewport=size, color_scheme=scheme, reduced_motion="reduce"
            )
            page = look.new_page()
            for name in names or addresses:
                page.goto(url + addresses[name])
                page.wait_for_load_state("networkidle")
                page.wait_for_timeout(500)
                save(page, name + suffix)
                taken.add(name + suffix)
            look.close()
        browser.close()
    return taken


def main() -> None:
    """Generate a demo, take the pictures, and remove it and pictures of former pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of a demo to use; it is not removed")
    options = parser.parse_args()
    if not chromium.program():
        raise SystemExit("Chromium is needed: apt-get install chromium-headless-shell")
    OUT.mkdir(parents=True, exist_ok=True)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="labcarbon-pictures-") as temporary:
        folder = options.data.resolve() if options.data else Path(temporary) / "demo"
        set_environment(folder, port)
        os.environ["DJANGO_SETTINGS_MODULE"] = "labcarbon.settings"
        with running_demo(folder, port) as sign_in:
            taken = take(f"http://127.0.0.1:{port}", sign_in, pages())
    for path in OUT.glob("*.png"):
        if path.stem not in taken:
            path.unlink()


if __name__ == "__main__":
    main()
