"""Inputs beside the command, its data and its configuration: where one of them changes, the work is
no certain repeat. Where nothing changes, a plain repeat stays certain.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.collector.fingerprint.support import Folder

PARSER = """\
import argparse, os, sys, glob, json
p = argparse.ArgumentParser()
p.add_argument("--data", default="data/a.csv")
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("--seed", type=int, default=7)
p.add_argument("--vocab")
"""
TABLE = "x,label\n1,0\n"
COMMAND = ("python", "train.py", "--data", "data/a.csv", "--vocab", "data/v.txt")
IGNORED = "data/\nout/\n*.env\n*.bin\nuntracked*\n"


@dataclass(frozen=True)
class Change:
    """``code``: after the parser. ``before``/``after``: files, environment or command."""

    code: str
    files: dict[str, str] = field(default_factory=dict)
    later: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    later_environ: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = COMMAND
    later_command: tuple[str, ...] = ()
    is_git: bool = True


def _paths(code: str, path: str, *more: str) -> Change:
    """The content of ``path`` changes."""
    command = (*COMMAND, *more)
    return Change(code, {path: "1\n"}, {path: "2\n"}, command=command)


def _variable(code: str) -> Change:
    return Change(code, environ={"LR": "0.1"}, later_environ={"LR": "0.2"})


def _words(code: str, before: str, after: str) -> Change:
    return Change(
        code,
        command=(*COMMAND, *before.split()),
        later_command=(*COMMAND, *after.split()),
    )


SHELL = ("bash", "run.sh", "data/a.csv")
OPTION = 'p.add_argument("{}"{})\na = p.parse_args()\n'
CHANGES = {
    # constant paths
    "function": _paths(
        "def words(path):\n  with open(path) as f: return f.read()\nwords('data/stop.txt')\n",
        "data/stop.txt",
    ),
    "class": _paths(
        "class Loader:\n  def __init__(self, root): self.root = root\n"
        "  def read(self):\n    for n in os.listdir(self.root): open(os.path.join(self.root, n))\n"
        "Loader(root='data/images').read()\n",
        "data/images/1.txt",
    ),
    "database": _paths("import sqlite3\nsqlite3.connect('data/x.db')\n", "data/x.db"),
    "archive": _paths("import zipfile\nzipfile.ZipFile('data/x.zip')\n", "data/x.zip"),
    "keyword": _paths("create_model('x', checkpoint_path='data/w.npz')\n", "data/w.npz"),
    "library": _paths("import ctypes\nctypes.CDLL('./untracked.so')\n", "untracked.so"),
    "program": _paths("import subprocess\nsubprocess.run(['./untracked'])\n", "untracked"),
    "formatted": _paths("open('%s/%s.txt' % ('data', 'x'))\n", "data/x.txt"),
    "module_root": _paths(
        "ROOT = os.path.join(os.path.dirname(__file__), 'data')\n"
        "def read(name): return open(os.path.join(ROOT, name))\nread('x')\n",
        "data/x",
    ),
    "constant_pattern": _paths("[open(f) for f in glob.glob('data/s*.txt')]\n", "data/s1.txt"),
    "constant_address": Change("from urllib.request import urlopen\nurlopen('https://a.b/c')\n"),
    # arguments that name files in another form
    "prefix": _paths(OPTION.format("--corpus", ""), "data/corpus.dat", "--corpus", "data/corpus"),
    "pattern": _paths(OPTION.format("--shards", ""), "data/s1.txt", "--shards", "data/s*.txt"),
    "list": _paths(OPTION.format("--mix", ""), "data/b.csv", "--mix", "data/c.csv,data/b.csv"),
    "weights": _paths(OPTION.format("--mix", ""), "data/b.csv", "--mix", "0.3:data/b.csv"),
    "at": _paths("p.parse_args()\n", "data/args.txt", "@data/args.txt"),
    "address": Change(
        "p.parse_args()\n", later={}, command=(*COMMAND, "--train", "s3://bucket/t.csv")
    ),
    # files that data names, and files beside data
    "listed": Change(
        "[open(line.strip()) for line in open(a.vocab)]\n",
        {"data/v.txt": "data/b.csv\n", "data/b.csv": "1\n"},
        {"data/b.csv": "2\n"},
    ),
    "listed_in_columns": Change(
        "import csv\n",
        {"data/v.txt": "path,label\nimg/1.txt,0\n", "data/img/1.txt": "1\n"},
        {"data/img/1.txt": "2\n"},
    ),
    "replaced": _paths("a = p.parse_args()\nopen(a.data.replace('a', 'b'))\n", "data/b.csv"),
    "suffix": _paths(
        "from pathlib import Path\nd = Path(p.parse_args().data)\nopen(d.with_suffix('.y'))\n",
        "data/a.y",
    ),
    "parent": _paths(
        "from pathlib import Path\ndef f(path): return (Path(path).parent / 'y').read_text()\n"
        "f(p.parse_args().data)\n",
        "data/y",
    ),
    "nested": Change(
        "",
        {"c.json": '{"sets": [{"path": "data/b.csv"}]}', "data/b.csv": "1"},
        {"data/b.csv": "2"},
        command=(*COMMAND, "--config", "c.json"),
    ),
    "beside_configuration": Change(
        "",
        {"c/c.json": '{"model": "untracked.json"}', "c/untracked.json": '{"lr": 1}'},
        {"c/untracked.json": '{"lr": 2}'},
        command=(*COMMAND, "--config", "c/c.json"),
    ),
    "base": Change(
        "",
        {"c/c.json": '{"_BASE_": "base.json"}', "c/base.json": '{"lr": 1}'},
        {"c/base.json": '{"lr": 2}'},
        command=(*COMMAND, "--config", "c/c.json"),
        is_git=False,
    ),
    # variables
    "alias": _variable("env = os.environ\nenv['LR']\n"),
    "copy": _variable("env = dict(os.environ)\nenv.get('LR')\n"),
    "items": _variable("{k: v for k, v in os.environ.items() if k in ('LR', 'WD')}\n"),
    "imported": _variable("from os import getenv as E\nE('LR')\n"),
    "format": _variable("'{LR}'.format(**os.environ)\n"),
    "expanded": _variable("os.path.expandvars('$LR')\n"),
    "reflection": _variable("getattr(os, 'environ')['LR']\n"),
    "environs": _variable("from environs import Env\nEnv().float('LR')\n"),
    "decouple": _variable("from decouple import config\nconfig('LR')\n"),
    "settings": _variable(
        "from pydantic_settings import BaseSettings\nclass C(BaseSettings):\n  lr: float\nC()\n"
    ),
    "hash_seed": Change("", environ={"PYTHONHASHSEED": "1"}, later_environ={"PYTHONHASHSEED": "2"}),
    "unset": Change(
        "os.environ.get('LR')\n",
        environ={"LR": "0.1"},
        later_environ={"LR": "0.1"},
        later_command=("env", "-u", "LR", *COMMAND),
    ),
    "interpolated": Change(
        "",
        {"c.yaml": "lr: ${oc.env:LR}\n"},
        environ={"LR": "0.1"},
        later_environ={"LR": "0.2"},
        command=(*COMMAND, "--config", "c.yaml"),
    ),
    # values that look like an output, a tracker or a number
    "output_kind": _words(OPTION.format("--output", ""), "--output softmax", "--output linear"),
    "left_out": _words(OPTION.format("--leave-out", ""), "--leave-out S01", "--leave-out S02"),
    "exponent": _words(
        OPTION.format("--drop_out", ", type=float"), "--drop_out 1e-1", "--drop_out 2e-1"
    ),
    "comet": _words(
        OPTION.format("--comet_weight", ", type=float"), "--comet_weight 1", "--comet_weight 2"
    ),
    "aim": _words(OPTION.format("--aim_ratio", ", type=float"), "--aim_ratio 1", "--aim_ratio 2"),
    "version": _words(OPTION.format("--release", ""), "--release 1.1", "--release 1.10"),
    "order": _words(
        OPTION.format("--files", ', nargs="+"'),
        "--files data/a.csv data/v.txt",
        "--files data/v.txt data/a.csv",
    ),
    "twice": _words(
        OPTION.format("--files", ', nargs="+"'),
        "--files data/a.csv data/v.txt",
        "--files data/a.csv data/v.txt data/v.txt",
    ),
    # standard input and other programs
    "stdin": Change("float(sys.stdin.read())\n"),
    "input": Change("float(input())\n"),
    "shell_source": Change(
        "",
        {"run.sh": "source job.env\npython train.py --data $1 --lr $LR\n", "job.env": "LR=0.1\n"},
        {"job.env": "LR=0.2\n"},
        command=SHELL,
    ),
    "shell_cat": Change(
        "",
        {"run.sh": "python train.py $(cat untracked.txt) --data $1\n", "untracked.txt": "1\n"},
        {"untracked.txt": "2\n"},
        command=SHELL,
    ),
    "shell_read": Change("", {"run.sh": "read LR\npython train.py --data $1\n"}, command=SHELL),
    "r_source": Change(
        "",
        {"train.R": "source('helper.R')\n", "helper.R": "x <- 1\n"},
        {"helper.R": "x <- 2\n"},
        command=("Rscript", "train.R", "--data", "data/a.csv"),
        is_git=False,
    ),
    "r_variable": Change(
        "",
        {"train.R": "lr <- Sys.getenv('LR')\n"},
        environ={"LR": "0.1"},
        later_environ={"LR": "0.2"},
        command=("Rscript", "train.R", "--data", "data/a.csv"),
    ),
    "node_variable": Change(
        "",
        {"train.js": "console.log(process.env.LR)\n"},
        environ={"LR": "0.1"},
        later_environ={"LR": "0.2"},
        command=("node", "train.js", "--data", "data/a.csv"),
    ),
    # modules
    "search_path": Change(
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "sys.path.insert(0, os.path.join(here, '..', 'lib'))\nimport helper\n",
        {"../lib/helper.py": "X = 1\n"},
        {"../lib/helper.py": "X = 2\n"},
    ),
    "plugin": Change(
        "import importlib\nimportlib.import_module(p.parse_args().vocab)\n",
        {"../lib/helper.py": "X = 1\n"},
        {"../lib/helper.py": "X = 2\n"},
        environ={"PYTHONPATH": "../lib"},
        later_environ={"PYTHONPATH": "../lib"},
    ),
    # a folder from which a program continues
    "resumed": Change(
        "class Trainer:\n  def __init__(self, output_dir): self.dir = output_dir\n"
        "  def train(self): return open(os.path.join(self.dir, 'last.bin')).read()\n"
        "p.add_argument('--out')\na = p.parse_args()\nTrainer(output_dir=a.out).train()\n",
        {"out/last.bin": "1"},
        {"out/last.bin": "2"},
        command=(*COMMAND, "--out", "out"),
    ),
}


def _write(folder: Folder, files: dict[str, str]) -> None:
    for name, text in files.items():
        folder.put(name, text)


def _prepare(folder: Folder, change: Change) -> None:
    _write(folder, {"data/a.csv": TABLE, "data/v.txt": "one\n", ".gitignore": IGNORED})
    _write(folder, {"train.py": PARSER + change.code, **change.files})
    if change.is_git:
        folder.commit()


def _is_certain(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether the server would call the second run a certain repeat of the first. Data is
    compared by names and times, because its content is not hashed in time on a busy machine.
    """
    parts = ("entry", "params", "seeds", "labels")
    return (
        all(one[part] == other[part] for part in parts)
        and one["code"].get("hash") == other["code"].get("hash") is not None
        and one["data"]["weak"] == other["data"]["weak"]
        and one["start"]["weak"] == other["start"]["weak"]
        and not one["not_compared"]
        and not other["not_compared"]
        and bool(one["seeds"])
    )


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_an_input_is_no_certain_repeat(folder: Folder, name: str) -> None:
    change = CHANGES[name]
    command = (*change.command, "--seed", "3")
    _prepare(folder, change)
    first = folder.wire(*command, environ=change.environ)
    _write(folder, change.later)
    later = (*change.later_command, "--seed", "3") if change.later_command else command
    second = folder.wire(*later, environ=change.later_environ)
    assert not _is_certain(first, second), second


REPEATS = {
    "plain": Change("a = p.parse_args()\nopen(a.data)\nopen(a.vocab)\n"),
    "outputs": Change(
        "a = p.parse_args()\nos.makedirs('out', exist_ok=True)\nopen('out/log.bin', 'w')\n"
        "def save(path): open(path, 'w')\nsave(os.path.join('out', 'x.bin'))\n",
        later={"out/log.bin": "1", "out/x.bin": "1"},
    ),
    "variables": Change(
        "env = os.environ.copy()\nenv['X'] = '1'\nos.environ['OMP_NUM_THREADS'] = '4'\n"
        "import subprocess\nsubprocess.run(['ls'], env=env)\n"
    ),
    "tracked_text": Change("open('prompt.txt')\n", {"prompt.txt": "one\n"}),
    "script_folder": Change(
        "from pathlib import Path\n(Path(__file__).parent / 'prompt.txt').read_text()\n",
        {"prompt.txt": "one\n"},
    ),
    "output_folder": Change(
        "p.add_argument('--output-dir')\n",
        command=(*COMMAND, "--output-dir", "first"),
        later_command=(*COMMAND, "--output-dir", "second"),
    ),
    "shell": Change(
        "", {"run.sh": "#!/bin/bash\nset -e\npython train.py --data $1 > untracked.log\n"},
        {"untracked.log": "1"}, command=SHELL,
    ),
    "equal_number": Change(
        "",
        command=(*COMMAND, "--lr", "0.10"),
        later_command=(*COMMAND, "--lr", "1e-1"),
    ),
    "search_path": Change("sys.path.append(os.path.dirname(__file__))\nimport helper\n",
                          {"helper.py": "X = 1\n"}),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATS)
def test_a_plain_repeat_stays_certain(folder: Folder, name: str) -> None:
    change = REPEATS[name]
    _prepare(folder, change)
    first = folder.wire(*change.command, "--seed", "3")
    _write(folder, change.later)
    second = folder.wire(*(change.later_command or change.command), "--seed", "3")
    assert _is_certain(first, second), second


@pytest.mark.parametrize(
    ("code", "seed"),
    [
        ("a.seed if a.seed >= 0 else None\n", "-1"),
        ("a = p.parse_args()\nif a.seed: set_seed(a.seed)\n", "0"),
        ("seed = p.parse_args().seed\nrandom.seed(seed or None)\n", "0"),
    ],
)
def test_a_value_that_means_no_seed_is_none(folder: Folder, code: str, seed: str) -> None:
    folder.write(train_py=PARSER + code)
    assert folder.wire("python", "train.py", "--seed", seed)["seeds"] == {}


def test_a_seed_of_zero_is_a_seed(folder: Folder) -> None:
    folder.write(train_py=PARSER + "a = p.parse_args()\nset_seed(a.seed)\n")
    assert folder.wire("python", "train.py", "--seed", "0")["seeds"].keys() == {"seed"}


def test_scripts_that_a_notebook_runs_are_code(folder: Folder) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": "%run untracked.py"}
    folder.put("train.ipynb", json.dumps({"cells": [cell], "metadata": {}}))
    folder.put(".gitignore", IGNORED)
    folder.commit()
    command = ("papermill", "train.ipynb", "out.ipynb")
    folder.put("untracked.py", "X = 1\n")
    before = folder.code(*command)
    folder.put("untracked.py", "X = 2\n")
    assert folder.code(*command) != before


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_a_change_that_git_ignores_is_other_code(folder: Folder, flag: str) -> None:
    folder.write(train_py="import settings\n", settings_py="X = 1\n")
    folder.commit()
    before = folder.code()
    folder.git("update-index", flag, "settings.py")
    assert folder.code() == before
    folder.write(settings_py="X = 2\n")
    assert folder.code() != before


def test_a_sparse_checkout_is_the_same_code(folder: Folder) -> None:
    folder.write(train_py="import settings\n", settings_py="X = 1\n", other_py="Y = 1\n")
    folder.commit()
    before = folder.code()
    folder.git("update-index", "--skip-worktree", "other.py")
    (folder.root / "other.py").unlink()
    assert folder.code() == before


def test_a_compiled_program_may_read_settings(folder: Folder) -> None:
    (folder.root / "trainer").write_bytes(b"\x7fELF program")
    wire = folder.wire("./trainer", "--data", "x")
    assert wire["code"]["state"] == "verified"
    assert wire["not_compared"] == ["settings that a compiled program reads"]


def test_docstrings_that_a_program_reads_are_code(folder: Folder) -> None:
    text = '"""Options: lr={}"""\nfrom docopt import docopt\ndocopt(__doc__)\n'
    folder.write(train_py=text.format(1))
    before = folder.normal()
    folder.write(train_py=text.format(2))
    assert folder.normal() != before


def test_a_tracked_text_that_the_code_names_is_no_format(folder: Folder) -> None:
    folder.write(train_py="open('prompt.txt')\n", prompt_txt="one\n", readme_txt="one\n")
    folder.commit()
    before = folder.normal()
    folder.write(readme_txt="two\n")
    assert folder.normal() == before
    folder.write(prompt_txt="two\n")
    assert folder.normal() != before


def test_an_editable_package_is_code(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outer = tmp_path_factory.mktemp("outer")
    site = outer / "venv/lib/python3.11/site-packages"
    (outer / "venv/bin").mkdir(parents=True)
    (outer / "venv/bin/python").touch()
    site.mkdir(parents=True)
    for package in ("first", "second"):
        (outer / package / package).mkdir(parents=True)
        (outer / package / package / "__init__.py").write_text("X = 1\n")
    (site / "_first.pth").write_text(f"{outer / 'first'}\n")
    (site / "__editable___second_finder.py").write_text(
        f"MAPPING: dict = {{'second': {str(outer / 'second' / 'second')!r}}}\n"
    )
    folder.write(train_py="import first, second\n")
    command = (str(outer / "venv/bin/python"), "train.py")
    codes = [folder.code(*command)]
    for package in ("first", "second"):
        (outer / package / package / "__init__.py").write_text("X = 2\n")
        codes.append(folder.code(*command))
    assert len(set(codes)) == 3


def test_folders_of_a_constant_are_not_sent(folder: Folder) -> None:
    secret = folder.put("private-name/table.txt", "1")
    folder.write(train_py=f"def f(p): return open(p)\nf({str(secret)!r})\n")
    assert folder.wire()["not_compared"] == ["the content of table.txt"]
