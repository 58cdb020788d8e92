"""Code without git: imports of the entry, the normal form, notebooks, unknown code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from labcarbon_collect.fingerprint.normalise import normal_lines, pack_lines, shingles

from tests.collector.fingerprint.support import MODEL, TRAIN, Folder


def test_a_line_of_logic_in_an_import_changes_the_code(folder: Folder) -> None:
    before = folder.wire()["code"]
    folder.put("model.py", MODEL.replace("2", "3"))
    after = folder.wire()["code"]
    assert before["hash"] != after["hash"]
    assert before["normal"] != after["normal"]


def test_comments_docstrings_and_format_change_the_code_and_not_its_normal_form(
    folder: Folder,
) -> None:
    before = folder.wire()["code"]
    folder.put(
        "train.py",
        TRAIN.replace("# trains", "# really trains").replace(
            '"""Train."""', '"""Learn,\n    long."""'
        ),
    )
    folder.put("model.py", "def step( epoch ):\n\n    return (epoch\n        * 2)  # twice\n")
    after = folder.wire()["code"]
    assert before["hash"] != after["hash"]
    assert before["normal"] == after["normal"]
    assert before["shingles"] == after["shingles"]


def test_a_file_that_is_not_imported_changes_nothing(folder: Folder) -> None:
    before = folder.code()
    folder.put("other.py", "X = 1\n")
    assert folder.code() == before


@pytest.mark.parametrize(
    ("files", "reached"),
    [
        (
            {"train.py": "import pkg.a\n", "pkg/__init__.py": "", "pkg/a.py": ""},
            ["pkg/__init__.py", "pkg/a.py"],
        ),
        ({"train.py": "from pkg import a\n", "pkg/__init__.py": "", "pkg/a.py": ""}, ["pkg/a.py"]),
        (
            {
                "train.py": "from pkg.a import f\n",
                "pkg/__init__.py": "",
                "pkg/a.py": "from . import b\n",
                "pkg/b.py": "",
            },
            ["pkg/b.py"],
        ),
        (
            {"train.py": "import pkg.a\n", "pkg/a.py": "from ..lib import x\n", "lib/x.py": ""},
            ["lib/x.py"],
        ),
        ({"train.py": "def f():\n    import late\n", "late.py": ""}, ["late.py"]),
        (
            {"train.py": "import importlib\nimportlib.import_module('named')\n", "named.py": ""},
            ["named.py"],
        ),
        (
            {
                "train.py": "from models import make\n",
                "models/net.py": "",
                "models/__init__.py": "import importlib as i\ni.import_module(f'.{x}')\n",
            },
            ["models/net.py"],
        ),
        ({"train.py": "load(sources=['k.cu'])\n", "k.cu": ""}, ["k.cu"]),
        ({"train.py": "open('defaults.yaml')\n", "defaults.yaml": ""}, ["defaults.yaml"]),
        (
            {"train.py": "@hydra.main(config_path='conf')\ndef f(): ...\n", "conf/m/net.yaml": ""},
            ["conf/m/net.yaml"],
        ),
    ],
)
def test_what_is_imported_counts(folder: Folder, files: dict[str, str], reached: list[str]) -> None:
    for name, content in files.items():
        folder.put(name, content)
    before = folder.code()
    for name in reached:
        folder.put(name, "X = 'changed'\n")
        changed = folder.code()
        assert changed != before, name
        before = changed


def test_the_same_code_elsewhere_is_the_same(folder: Folder, tmp_path: Any) -> None:
    other = Folder(tmp_path / "a" / "b", folder.home)
    other.write(train_py=TRAIN, model_py=MODEL.replace("\n", "\r\n"))
    (mine, theirs) = folder.wire(), other.wire()
    assert (mine["entry"], mine["code"]["hash"]) == (theirs["entry"], theirs["code"]["hash"])


def test_a_module_is_its_script(folder: Folder) -> None:
    folder.put("pkg/__init__.py", "")
    folder.put("pkg/train.py", "x = 1\n")
    by_module, by_path = (
        folder.wire("python", "-m", "pkg.train"),
        folder.wire("python", "pkg/train.py"),
    )
    folder.commit()
    by_module, by_path = (
        folder.wire("python", "-m", "pkg.train"),
        folder.wire("python", "pkg/train.py"),
    )
    assert by_module["entry"] == by_path["entry"]
    assert by_module["code"]["hash"] == by_path["code"]["hash"]


def test_a_folder_of_pythonpath_counts(folder: Folder, tmp_path: Any) -> None:
    lib = Folder(tmp_path / "lib", folder.home)
    lib.put("tools.py", "X = 1\n")
    folder.put("model.py", "import tools\n" + MODEL)
    environ = {"PYTHONPATH": str(lib.root)}
    before = folder.code(environ=environ)
    lib.put("tools.py", "X = 2\n")
    assert folder.code(environ=environ) != before


@pytest.mark.parametrize(
    ("command", "why"),
    [
    (["blender", "x"], "installed program"), (["sleep", "1"], "installed program"),
    (["python", "-m", "timm.train"], "not below this folder"),
    (["python", "gone.py"], "not below this folder"),
    (["sh", "-c", "train-things --fast"], "starts unknown programs"),
    (["bash", "alone.sh"], "starts unknown programs"), (["python"], "installed program"),
],
)  # fmt: skip
def test_undeterminable_code_is_unknown_with_a_reason(
    folder: Folder, command: list[str], why: str
) -> None:
    folder.put("alone.sh", "make train\n")
    found = folder.survey(*command)
    assert found.wire["code"] == {"state": "unknown"}
    assert why in " ".join(found.notes)


def test_a_shell_script_counts_with_what_it_names(folder: Folder) -> None:
    folder.put("go.sh", "set -e\npython train.py --lr 0.1\n")
    before = folder.code("bash", "go.sh")
    folder.put("model.py", MODEL.replace("2", "3"))
    assert folder.code("bash", "go.sh") != before
    inline = folder.code("sh", "-c", "python train.py")
    folder.put("model.py", MODEL)
    assert folder.code("sh", "-c", "python train.py") != inline


def test_inline_python_is_its_text(folder: Folder) -> None:
    one, two = (
        folder.wire("python", "-c", f"import model; model.step({n})")["code"] for n in (1, 2)
    )
    same = folder.wire("python", "-c", "import model;  model.step(1)  # x")["code"]
    assert one["hash"] != two["hash"]
    assert one["normal"] == same["normal"]


def test_a_program_of_ones_own_is_its_content(folder: Folder) -> None:
    path = folder.put("sim", b"\x7fELF one")
    path.chmod(0o755)
    before = folder.code("./sim", "--n", "1")
    folder.put("sim", b"\x7fELF two")
    assert folder.code("./sim", "--n", "1") != before


def notebook(*cells: str, outputs: Any = (), kind: str = "code") -> str:
    made = [{"cell_type": "markdown", "source": ["# words"]}]
    made += [
        {
            "cell_type": kind,
            "source": cell.splitlines(keepends=True),
            "outputs": list(outputs),
            "execution_count": len(outputs),
        }
        for cell in cells
    ]
    return json.dumps({"cells": made, "nbformat": 4, "metadata": {"x": len(outputs)}})


@pytest.mark.parametrize("with_git", [False, True])
def test_a_notebook_is_its_code_without_outputs(folder: Folder, with_git: bool) -> None:
    folder.put("nb.ipynb", notebook("%matplotlib inline\nimport model\n", "model.step(1)\n"))
    if with_git:
        folder.commit()
    command = ["papermill", "nb.ipynb", "out.ipynb", "-p", "lr", "0.1"]
    before = folder.wire(*command)
    folder.put(
        "nb.ipynb",
        notebook(
            "%matplotlib inline\nimport model\n", "model.step(1)\n", outputs=[{"text": "loss 1"}]
        ),
    )
    folder.put("out.ipynb", notebook("done"))
    ran = folder.wire(*command)
    assert ran["code"]["hash"] == before["code"]["hash"]
    assert ran["params"] == before["params"]
    assert ran["params"].keys() == {"lr"}
    folder.put("nb.ipynb", notebook("%matplotlib inline\nimport model\n", "model.step(2)\n"))
    changed = folder.wire(*command)["code"]
    assert changed["hash"] != before["code"]["hash"]
    assert changed["normal"] != before["code"]["normal"]
    folder.put("nb.ipynb", notebook("%matplotlib notebook\nimport model\n", "model.step(1)\n"))
    assert folder.wire(*command)["code"]["normal"] != before["code"]["normal"]
    folder.put("model.py", MODEL.replace("2", "3"))
    assert folder.wire(*command)["code"]["hash"] != changed["hash"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"cells": 3}', "[" * 5000, "null"])
def test_what_is_no_notebook_counts_by_its_content(folder: Folder, content: str) -> None:
    folder.put("nb.ipynb", content)
    assert folder.code("papermill", "nb.ipynb", "o.ipynb")


def test_the_normal_form_is_the_same_in_every_version_of_python() -> None:
    source = (
        "def f(a, *, b=None):\n    'doc'\n    if a:\n        return [a, 'x']\n    else:\n        "
        "return {**b}\n"
    )
    assert normal_lines("x.py", source.encode()) == [
        (
            "1 "
            "FunctionDef(name='f',args=arguments(args=[arg(arg='a')],kwonlyargs=[arg(arg='b')],"
            "kw_defaults=[None]))"
        ),
        "2 If(test=Name(id='a'))",
        "3 Return(value=List(elts=[Name(id='a'),'x']))",
        "2 orelse",
        "3 Return(value=Dict(keys=[None],values=[Name(id='b')]))",
    ]
    assert normal_lines("x.sh", b"# c\n\n  run it \n#d\n") == ["run it"]
    assert normal_lines("x.py", b"print 'two'  # old\n# c\n") == [
        "print 'two'  # old",
        "# c",  # the file is invalid: this may be a line of a string
    ]


def test_lines_that_may_contain_a_secret_are_not_in_the_shingles() -> None:
    lines = ["1 Assign(password='x')", "1 Assign(lr=1)"]
    assert len(shingles([("a.py", pack_lines(lines))])) == 1


def test_at_most_twenty_thousand_shingles() -> None:
    told = shingles([("a.py", pack_lines([f"line {number}" for number in range(30_000)]))])
    assert len(told) == 20_000
    assert told == sorted(told)
