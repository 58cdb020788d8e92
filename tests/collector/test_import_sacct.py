"""labcarbon-collect import-sacct with a real server: from a file and from sacct, repeated, and
after an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from labcarbon_collect.api import bulk_uploader
from labcarbon_collect.api.transport import ServerUnavailable, Transport
from labcarbon_collect.cli import main
from labcarbon_collect.commands import import_sacct
from labcarbon_collect.slurm.parsers import SACCT

from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
from apps.ingest.window_rules import job_run
from apps.runs.models import Run
from tests.builders import T0, small_lab

FIXTURE = Path(__file__).parent / "fixtures" / "slurm" / "sacct.txt"
Import = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bring(
    live_server: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Import]:
    """Run the command as a member of a lab; return exit code, output, messages."""
    small = small_lab()
    monkeypatch.setenv("LABCARBON_URL", str(live_server))
    monkeypatch.setenv(
        "LABCARBON_TOKEN", issue_user_token(lab=small.lab, user=small.owner, now=now_us())
    )
    monkeypatch.setenv("LABCARBON_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SLURM_CONF", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["import-sacct", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def history(path: Path, count: int) -> Path:
    rows = (
        f"{n}|hpc|{n}|ada|vision|gpu|COMPLETED|0:0|1|{1_793_606_400 + n}|1793610000|n1|cpu=1||j{n}"
        for n in range(1, count + 1)
    )
    path.write_text("\n".join(["|".join(SACCT), *rows]) + "\n")
    return path


@pytest.mark.django_db(transaction=True)
def test_a_file_of_every_kind_of_job(bring: Import) -> None:
    code, out, _ = bring(str(FIXTURE))
    assert (code, out) == (
        0,
        "11 created, 0 changed, 0 unchanged, 0 refused; 2 never started and are not runs\n",
    )
    run = Run.objects.get(uuid=job_run("hpc/16"))
    assert (run.os_user, run.account, run.name, run.state, run.exit_code) == (
        "ben",
        "vision,nlp",
        "a|b",
        "killed",
        143,
    )
    assert run.job_facts["state"] == "CANCELLED by 1004"
    assert Run.objects.get(job_id="15").job_facts["array_task"] == "1"
    assert Run.objects.get(job_id="12").started_us == T0
    code, out, said = bring(str(FIXTURE))
    assert (code, out) == (
        0,
        "0 created, 0 changed, 0 unchanged, 0 refused; 0 never started and are not runs\n",
    )
    assert "--restart" in said
    assert bring("--restart", str(FIXTURE))[1].startswith(
        "0 created, 0 changed, 11 unchanged, 0 refused"
    )


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_import_resumes(
    bring: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = history(tmp_path / "sacct.txt", 50)
    monkeypatch.setattr(import_sacct, "MAX_ROWS", 10)
    monkeypatch.setattr(bulk_uploader, "full_jitter", lambda failures: 0.0)
    sent, call = [0], Transport.call

    def failing(transport: Transport, method: str, path: str, body: object = None) -> object:
        sent[0] += 1
        if sent[0] > 2:
            raise ServerUnavailable("the cable is out", sent=False)
        return call(transport, method, path, body)  # type: ignore[arg-type]

    with monkeypatch.context() as cut:
        cut.setattr(Transport, "call", failing)
        code, out, said = bring(str(file))
    assert code == 1
    assert "the cable is out" in said
    assert "The same command resumes" in said
    assert out.startswith("20 created")
    assert Run.objects.count() == 20
    code, out, said = bring(str(file))
    assert (code, out.split(";")[0]) == (0, "30 created, 0 changed, 0 unchanged, 0 refused")
    assert Run.objects.count() == 50


@pytest.mark.django_db(transaction=True)
def test_rows_that_are_refused_are_listed(bring: Import, tmp_path: Path) -> None:
    file = history(tmp_path / "sacct.txt", 3)
    text = (
        file.read_text()
        .replace("|1793606402|", "|1999999999|")
        .replace("3|hpc|3|ada|vision", f"3|hpc|3|ada|{'v' * 120}")
    )
    file.write_text(
        text + "4|hpc|4|ada|v|gpu|DANCING|0:0|1|2|3|n1|||x\n"
        "5|hpc|5|ada|v|gpu|FAILED|0:0|1|soon|3|n1|||x\n"
    )
    code, out, _ = bring(str(file))
    assert code == 1
    assert "2 created, 0 changed, 0 unchanged, 3 refused" in out
    assert "job hpc/2: the end is before the start" in out
    assert "unknown state 'DANCING'" in out
    assert "line 6: " in out
    assert Run.objects.get(job_id="3").account == "v" * 100


@pytest.mark.django_db(transaction=True)
def test_sacct_is_queried_day_by_day(
    bring: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "sacct"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case $word in --delimiter=*) m=${word#*=};; --starttime=*) '
        "d=${word#*=};; esac; done\n"
        f'echo "$SLURM_TIME_FORMAT $TZ $d" >> {tmp_path}/asked\n'
        f'printf "%s\\n" "{"|".join(SACCT)}" | sed "s/|/$m/g"\n'
        'n=$(echo "$d" | cut -c9-10)\n'
        'printf "%s\\n" "$n|hpc|$n|ada|v|gpu|COMPLETED|0:0|1|1793606400|1793606500|n1|cpu=1||x" | '
        'sed "s/|/$m/g"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    code, out, _ = bring("--since", "2026-11-01", "--until", "2026-11-04")
    assert (code, out.split(";")[0]) == (0, "3 created, 0 changed, 0 unchanged, 0 refused")
    assert (tmp_path / "asked").read_text().split("\n")[:3] == [
        f"%s UTC 2026-11-0{day}T00:00:00" for day in (1, 2, 3)
    ]
    assert sorted(Run.objects.values_list("job_id", flat=True)) == ["01", "02", "03"]
    program.write_text("#!/bin/sh\necho 'sacct: error: slurmdbd is away' >&2\nexit 1\n")
    code, _, said = bring("--since", "2026-11-01", "--until", "2026-11-03")
    assert code == 1
    assert "sacct" in said


@pytest.mark.parametrize(
    ("arguments", "mend"),
    [
        (["/nowhere/sacct.txt"], "cannot read"),
        (["--since", "2026-02-01", "--until", "2026-01-01"], "must be before"),
        ([str(FIXTURE), "--since", "2026-01-01"], "a file is read as a whole"),
        ([__file__], "--format=JobIDRaw"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_mistakes(bring: Import, arguments: list[str], mend: str) -> None:
    code, _, said = bring(*arguments)
    assert code == 1
    assert mend in said
    assert "Traceback" not in said
