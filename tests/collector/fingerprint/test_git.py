"""Code in a real git repository: what changes its hash and what does not."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.collector.fingerprint.support import MODEL, TRAIN, Folder

Clone = Callable[[Folder], Folder]


def test_an_amend_changes_the_commit_and_not_the_code(repo: Folder) -> None:
    before = repo.wire()["code"]
    repo.git("commit", "-q", "--amend", "-m", "better words", "--date", "2020-01-01T00:00:00")
    after = repo.wire()["code"]
    assert after["commit"] != before["commit"]
    assert (after["hash"], after["normal"], after["dirty"]) == (
        before["hash"],
        before["normal"],
        False,
    )


def test_a_rebase_and_a_merge_with_the_same_files_are_the_same_code(repo: Folder) -> None:
    repo.git("checkout", "-q", "-b", "feature")
    repo.put("model.py", MODEL + "SIZE = 1\n")
    repo.commit("feature")
    repo.git("checkout", "-q", "main")
    repo.put("README.md", "a better project\n")
    repo.commit("on main")
    repo.git("checkout", "-q", "feature")
    repo.git("rebase", "-q", "main")
    rebased = repo.wire()["code"]
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "-m", "merged", "feature")
    merged = repo.wire()["code"]
    assert merged["commit"] != rebased["commit"]
    assert merged["hash"] == rebased["hash"]


def test_two_clones_are_the_same_code_whatever_their_settings(repo: Folder, clone: Clone) -> None:
    other = clone(repo)
    for setting in ("diff.noprefix", "diff.mnemonicPrefix", "core.autocrlf", "color.ui"):
        other.git("config", setting, "true" if setting != "color.ui" else "always")
    assert other.code() == repo.code()
    for each in (repo, other):
        each.put("model.py", MODEL.replace("2", "3"))
    assert other.code() == repo.code()


def test_a_changed_line_changes_the_code_and_sets_dirty(repo: Folder) -> None:
    before = repo.wire()["code"]
    repo.put("model.py", MODEL.replace("2", "3"))
    dirty = repo.wire()["code"]
    assert dirty["hash"] != before["hash"]
    assert dirty["normal"] != before["normal"]
    assert (before["dirty"], dirty["dirty"]) == (False, True)


def test_the_same_files_are_the_same_code_committed_staged_or_neither(repo: Folder) -> None:
    repo.put("model.py", MODEL.replace("2", "3"))
    repo.put("extra.py", "X = 1\n")
    repo.put("train.py", TRAIN + "import extra\n")
    untracked = repo.code()
    repo.git("add", "-A")
    staged = repo.code()
    repo.commit("all of it")
    assert untracked == staged == repo.code()


def test_a_file_beside_git_counts_when_it_is_imported_and_only_then(repo: Folder) -> None:
    before = repo.code()
    repo.put("notes.py", "X = 1\n")
    assert repo.code() == before
    repo.put("model.py", "import notes\n" + MODEL)
    imported = repo.code()
    repo.put("notes.py", "X = 2\n")
    assert repo.code() != imported


def test_an_ignored_file_that_is_imported_counts(repo: Folder) -> None:
    repo.put(".gitignore", "local.py\n")
    repo.put("local.py", "LR = 1\n")
    repo.put("model.py", "import local\n" + MODEL)
    repo.commit()
    before = repo.code()
    repo.put("local.py", "LR = 2\n")
    assert repo.code() != before


def test_touched_files_modes_and_line_ends_are_no_change(repo: Folder) -> None:
    before = repo.wire()["code"]
    shutil.copy(repo.root / "model.py", repo.root / "copy")
    (repo.root / "copy").replace(repo.root / "model.py")  # another inode, another mtime
    (repo.root / "train.py").chmod(0o755)
    assert repo.wire()["code"] == before
    (repo.root / "model.py").write_bytes(MODEL.replace("\n", "\r\n").encode())
    assert repo.wire()["code"]["hash"] == before["hash"]


def test_a_deleted_file_is_a_change_and_so_is_a_link_elsewhere(repo: Folder) -> None:
    states = {repo.code()}
    (repo.root / "README.md").unlink()
    states.add(repo.code())
    (repo.root / "README.md").symlink_to("train.py")
    states.add(repo.code())
    (repo.root / "README.md").unlink()
    (repo.root / "README.md").symlink_to("model.py")
    states.add(repo.code())
    assert len(states) == 4


def test_the_script_is_named_below_the_root_of_the_repository(repo: Folder, clone: Clone) -> None:
    repo.put("scripts/train.py", "import sys\n")
    repo.commit()
    other = clone(repo)
    inside = Folder(other.root / "scripts", other.home)
    assert (
        inside.wire("python", "train.py")["entry"]
        == repo.wire("python", "scripts/train.py")["entry"]
    )
    assert (
        repo.wire("python", "train.py")["entry"] != repo.wire("python", "scripts/train.py")["entry"]
    )


def test_a_submodule_counts_by_its_files(repo: Folder, tmp_path: Path) -> None:
    inner = Folder(tmp_path / "inner", repo.home)
    inner.put("layers.py", "A = 1\n")
    inner.commit()
    repo.git("submodule", "add", "-q", str(inner.root), "lib")
    repo.commit("with lib")
    before = repo.wire()["code"]
    lib = Folder(repo.root / "lib", repo.home)
    lib.git("commit", "-q", "--amend", "-m", "same files")
    amended = repo.wire()["code"]
    lib.put("layers.py", "A = 2\n")
    changed = repo.wire()["code"]
    assert amended["hash"] == before["hash"]
    assert changed["hash"] != before["hash"]
    assert changed["dirty"] is True


def test_a_notebook_in_the_repository_that_is_not_run_changes_nothing(repo: Folder) -> None:
    before = repo.code()
    repo.put("look.ipynb", "{}")
    repo.commit()
    assert repo.code() == before


def test_content_in_large_file_storage_is_as_its_pointer(repo: Folder) -> None:
    content = b"weights" * 100
    digest = hashlib.sha256(content).hexdigest()
    repo.put(
        "w.bin",
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n",
    )
    repo.commit()
    before = repo.code()
    repo.put("w.bin", content)
    assert repo.code() == before
    repo.put("w.bin", content + b"!")
    assert repo.code() != before


def test_a_repository_without_a_commit_is_looked_at_as_a_folder(folder: Folder) -> None:
    plain = folder.wire()["code"]
    folder.git("init", "-q")
    assert folder.wire()["code"]["hash"] == plain["hash"]
    assert "commit" not in plain


def test_git_environment_variables_do_not_select_another_repository(
    repo: Folder, clone: Clone
) -> None:
    other = clone(repo)
    other.put("model.py", "other\n")
    environ = {
        "GIT_DIR": str(other.root / ".git"),
        "GIT_WORK_TREE": str(other.root),
        "GIT_INDEX_FILE": "/nowhere",
    }
    assert repo.code(environ=environ) == repo.code()


EVIL = """
[core]
    fsmonitor = touch {0}/fsmonitor; false
    sshCommand = touch {0}/ssh
    hooksPath = {0}/hooks
    pager = touch {0}/pager
[diff]
    external = touch {0}/external
[diff "evil"]
    textconv = touch {0}/textconv; cat
    command = touch {0}/command
[filter "evil"]
    clean = touch {0}/clean; cat
    smudge = touch {0}/smudge; cat
    process = touch {0}/process
    required = true
[remote "origin"]
    url = ext::sh -c touch% {0}/fetched
    promisor = true
    partialclonefilter = blob:none
"""
PARTIAL = """
[core]
    repositoryformatversion = 1
[extensions]
    partialClone = origin
"""


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "with an object missing"])
def test_a_hostile_git_configuration_starts_nothing(
    repo: Folder, tmp_path: Path, lost: bool
) -> None:
    trap = tmp_path / "trap"
    (trap / "hooks").mkdir(parents=True)
    for hook in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction"):
        (trap / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {trap}/hook\n")
        (trap / "hooks" / hook).chmod(0o755)
    tree = repo.git("rev-parse", "HEAD^{tree}")
    (repo.root / ".git" / "info").mkdir(exist_ok=True)
    (repo.root / ".git" / "info" / "attributes").write_text("* diff=evil filter=evil\n")
    with (repo.root / ".git" / "config").open("a") as config:
        config.write(EVIL.format(trap) + (PARTIAL if lost else ""))
    repo.put("model.py", MODEL.replace("2", "3"))
    if lost:
        (repo.root / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    told = repo.wire()["code"]
    assert told["state"] == "verified"
    assert ("commit" in told) is not lost
    assert [path.name for path in trap.iterdir()] == ["hooks"]
    if not lost:
        with suppress(subprocess.CalledProcessError):
            repo.git("diff", "HEAD")  # the trap works: a plain diff triggers it
        assert len(list(trap.iterdir())) > 1


def test_a_filter_whose_name_cannot_be_switched_off_is_no_git_to_us(
    repo: Folder, tmp_path: Path
) -> None:
    with (repo.root / ".git" / "config").open("a") as config:
        config.write(f'[filter "a=b.clean=true"]\n    clean = touch {tmp_path}/sprung\n')
    (repo.root / ".git" / "info" / "attributes").write_text("* filter=a=b.clean=true\n")
    repo.put("model.py", MODEL.replace("2", "3"))
    assert "commit" not in repo.wire()["code"]
    assert not (tmp_path / "sprung").exists()


def test_git_that_hangs_costs_no_more_than_was_given(repo: Folder, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    begun = time.monotonic()
    found = repo.survey(seconds=3, environ={"PATH": f"{slow.parent}:{repo.environ['PATH']}"})
    assert time.monotonic() - begun < 15
    assert found.wire["code"] == {"state": "unknown"}
    assert any(
        "Code unknown: it exceeded 3 s" in note or "git exceeded" in note for note in found.notes
    )
    assert found.wire["start"]["name"] == "scratch"
