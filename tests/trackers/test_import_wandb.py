"""labcarbon-collect import-wandb: offline runs of W&B's real client, imported over the REST API."""

import hashlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from labcarbon_collect.cli import main
from labcarbon_collect.lc1 import param_hash, part_hash

from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.runs.models import ExternalId, Fingerprint, Metric, MetricPoint, Run
from tests.builders import SmallLab, small_lab
from tests.serialized_server import serialize_requests
from tests.services import wandb

pytestmark = [
    pytest.mark.skipif(bool(wandb.missing()), reason=wandb.missing()),
    pytest.mark.django_db(transaction=True),
]
Import = Callable[..., subprocess.CompletedProcess[str]]

# 100 → 300 W within 15 s are 3000 J; 300 W for 15 s are 4500 J; GPU 1 has 50 W. Then a gap.
TRAINING = """
run = start(project="demo", name="first", group="g", tags=["b", "a"],
            config={"lr": 0.1, "seed": 7, "model": {"depth": 3, "name": "vit"}, "api_key": "abc"})
run.config["late"] = 5
at = int(time.time() // 60) * 60_000_000 - 600_000_000
for second, watts in ((0, 100), (15, 300), (30, 300), (45, 300), (600, 300), (615, 300)):
    record_power(run, at + second * 1_000_000, gpu__0__powerWatts=watts, gpu__1__powerWatts=50,
                 gpu__0__powerPercent=90)
for step in range(3):
    words = {"text": "a", "flag": True}
    run.log({"loss": 1 / (step + 1), "val": {"acc": step}, **words}, step=10 * step)
run.log({"loss": float("nan"), "page": wandb.Html("<p>")}, step=30)
run.finish()
"""
FAILING = """
run = start(project="demo", config={"lr": 0.2})
run.log({"loss": 1})
raise ValueError("no")
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> SmallLab:
    serialize_requests(monkeypatch)
    return small_lab()


@pytest.fixture
def bring(small: SmallLab, live_server: Any, tmp_path: Path) -> Import:
    """Run the command as a member of a lab."""
    token = issue_user_token(lab=small.lab, user=small.owner, now=now_us())

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return wandb.collect(
            tmp_path,
            "import-wandb",
            *words,
            LABCARBON_URL=live_server.url,
            LABCARBON_TOKEN=token,
            LABCARBON_DATA=str(tmp_path / "data"),
        )

    return run


def _state() -> list[list[Any]]:
    hidden = {"last_report_us", "seen_us"}
    return [
        [
            {name: value for name, value in row.items() if name not in hidden}
            for row in model.objects.order_by("pk").values()
        ]
        for model in (Run, Fingerprint, Metric, MetricPoint, ExternalId, LedgerEntry)
    ]


def _node(small: SmallLab) -> tuple[str, str]:
    return "--node", f"{socket.gethostname()}={small.node.uuid}"


def test_a_run_with_all_its_parts(bring: Import, small: SmallLab, tmp_path: Path) -> None:
    folder = wandb.execute(tmp_path / "work", TRAINING)
    planned = bring("--dry-run", *_node(small), "work")
    assert planned.returncode == 0, planned.stderr
    assert "GPU 0: 4.58 Wh" in planned.stdout  # 16 500 J
    assert "GPU 1: 0.833 Wh" in planned.stdout  # 3 000 J
    assert "555 s between power samples are gaps" in planned.stdout
    assert not Run.objects.exists()

    done = bring(*_node(small), "work")
    assert (done.returncode, done.stdout) == (0, "1 sent\n"), done.stderr
    run_until_idle(worker="test")
    run = Run.objects.select_related("fingerprint").get()
    assert (run.name, run.state, run.exit_code, run.host) == (
        "first",
        "finished",
        0,
        socket.gethostname(),
    )
    assert run.node == small.node
    assert run.ended_us is not None
    assert run.params == {
        "api_key": "(masked)",
        "late": 5,
        "lr": 0.1,
        "model.depth": 3,
        "model.name": "vit",
        "seed": 7,
    }
    external = ExternalId.objects.get(run=run)
    assert (external.tool, external.value) == ("wandb", f"demo/{folder.name[-8:]}")

    row = run.fingerprint
    assert row.params == {
        name: param_hash(name, value)
        for name, value in {"late": 5, "lr": 0.1, "model.depth": 3, "model.name": "vit"}.items()
    }
    assert row.seeds == {"seed": param_hash("seed", 7)}
    assert row.dropped == {"api_key": ""}
    assert row.entry == part_hash("entry", "train.py")
    assert row.labels["wandb_tags"] == param_hash("wandb_tags", "a, b")
    assert (row.start, row.data) == ("", "")

    points = {
        (point.metric.name, point.step): point.value
        for point in MetricPoint.objects.select_related("metric")
    }
    assert points == {
        ("loss", 0): 1.0, ("loss", 10): 0.5, ("loss", 20): 1 / 3, ("loss", 30): None,
        ("val.acc", 0): 0.0, ("val.acc", 10): 1.0, ("val.acc", 20): 2.0,
    }  # fmt: skip
    entries = LedgerEntry.objects.filter(consumer__run_uuid=run.uuid)
    assert sum(entries.values_list("energy_mj", flat=True)) == 19_500_000

    before = _state()
    assert bring(*_node(small), "work").stdout == "1 sent before\n"
    again = bring("--restart", *_node(small), "work")
    assert (again.returncode, again.stdout) == (0, "1 sent\n"), again.stderr
    run_until_idle(worker="test")
    assert _state() == before


def test_broken_folders_are_reported_and_the_others_imported(bring: Import, tmp_path: Path) -> None:
    work = tmp_path / "work"
    good = wandb.execute(work, FAILING, code=1)
    broken = good.with_name("offline-run-20260101_000000-damaged1")
    shutil.copytree(good, broken)
    log = (broken / f"run-{good.name[-8:]}.wandb").rename(broken / "run-damaged1.wandb")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 255
    log.write_bytes(bytes(content))
    foreign = good.with_name("offline-run-20260101_000001-foreign1")
    foreign.mkdir()
    (foreign / "run-foreign1.wandb").write_text("nothing of W&B")
    good.with_name("offline-run-20260101_000002-empty001").mkdir()
    done = bring("work")
    assert done.returncode == 1
    assert re.search(r"damaged1: .*(checksum|damaged)", done.stdout)
    assert re.search(r"foreign1: .*invalid W&B identifier", done.stdout)
    assert "empty001: 0 files run-*.wandb instead of one" in done.stdout
    assert done.stdout.endswith("1 sent, 3 failed\n")
    run = Run.objects.get()
    assert (run.state, run.exit_code) == ("failed", 1)
    assert bring("work").stdout.endswith("1 sent before, 3 failed\n")


def test_the_commit_with_saved_changes_else_the_saved_program(
    bring: Import, tmp_path: Path
) -> None:
    body = 'run = start(project="demo", config={"lr": 0.1})\nrun.finish()\n'
    work = tmp_path / "work"
    saving = wandb.HEAD.replace(
        "settings=wandb.Settings(", "settings=wandb.Settings(save_code=True, "
    )
    assert saving != wandb.HEAD
    work.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wandb, "HEAD", saving)
        wandb.execute(work, body)
        assert bring("work").returncode == 0
        row = Fingerprint.objects.get()
        digest = hashlib.sha256((work / "train.py").read_bytes()).hexdigest()
        assert row.code_weak == part_hash("program", "train.py", digest)

        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(work)]
        for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "a"]):
            subprocess.run([*git, *words], check=True)
        commit = subprocess.run(
            [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        wandb.execute(work, body)
        folder = wandb.execute(work, body + "# changed\n")
    assert bring("work").returncode == 0
    rows = list(Fingerprint.objects.exclude(pk=row.pk).order_by("run__started_us"))
    assert [each.commit for each in rows] == [commit, commit]
    assert rows[0].code_weak == part_hash("commit", commit)
    patch_hash = hashlib.sha256((folder / "files" / "diff.patch").read_bytes()).hexdigest()
    assert rows[1].code_weak == part_hash("commit", commit, "changes", patch_hash)
    assert [each.code for each in rows] == ["", ""]


def test_two_runs_that_measured_one_gpu_count_it_once(
    bring: Import, small: SmallLab, tmp_path: Path
) -> None:
    wandb.execute(tmp_path / "work", TRAINING)
    wandb.execute(tmp_path / "work", TRAINING)
    done = bring(*_node(small), "work")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("measured the same GPU meanwhile") == 1
    run_until_idle(worker="test")
    assert sum(LedgerEntry.objects.values_list("energy_mj", flat=True)) == 19_500_000


def test_an_interrupted_run_has_no_end_at_first(bring: Import, tmp_path: Path) -> None:
    wandb.execute(
        tmp_path / "work", 'run = start(project="demo")\nrun.log({"loss": 1})\nrun.finish()\n'
    )
    log = next((tmp_path / "work" / "wandb").glob("offline-run-*/run-*.wandb"))
    whole = log.read_bytes()
    log.write_bytes(whole[:-10])  # the last record is the end
    done = bring("work")
    assert done.returncode == 0, done.stderr
    assert "it has no end yet" in done.stdout
    assert Run.objects.get().state == "running"
    log.write_bytes(whole)
    assert bring("work").stdout == "1 sent\n"
    assert Run.objects.get().state == "finished"


def test_a_resumed_run_is_one_run(bring: Import, tmp_path: Path) -> None:
    body = """
run = start(project="demo", id="resumed1", resume="allow", config={"lr": 0.1})
run.log({"loss": STEP}, step=STEP)
run.finish(exit_code=CODE)
"""
    work = tmp_path / "work"
    first = wandb.execute(work, body.replace("STEP", "1").replace("CODE", "1"))
    time.sleep(1)  # the names of the folders contain seconds
    second = wandb.execute(work, body.replace("STEP", "2").replace("CODE", "0"))
    assert first != second
    done = bring("work")
    assert (done.returncode, done.stdout) == (0, "1 sent\n"), done.stderr
    assert (Run.objects.get().state, MetricPoint.objects.count()) == ("finished", 2)


def test_without_the_package_the_command_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import-wandb", "--dry-run", str(tmp_path)]) == 1
    assert "-m pip install 'wandb>=0.31'" in capsys.readouterr().err


def test_energy_needs_a_node(bring: Import, tmp_path: Path) -> None:
    wandb.execute(tmp_path / "work", TRAINING)
    done = bring("work")
    assert (done.returncode, "energy not imported: name the node" in done.stdout) == (0, True)
    unknown = bring("--node", f"{socket.gethostname()}={uuid4()}", "work")
    assert unknown.returncode == 1
    assert "This run belongs to no node" in unknown.stdout
    assert Run.objects.get().state == "finished"
    run_until_idle(worker="test")
    assert not LedgerEntry.objects.exists()
