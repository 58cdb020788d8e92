"""Inputs that a command does not show: what differs in them is never a certain repeat."""

from __future__ import annotations

import pytest

from tests.collector.fingerprint.support import Folder

CLICK = """\
import click

@click.command()
@click.option("--lr", default=0.1, envvar=["LR", "RATE"])
@click.option("--epochs", default=3)
def main(lr, epochs): pass

main(auto_envvar_prefix="TRAIN")
"""


@pytest.mark.parametrize("name", ["LR", "RATE", "TRAIN_EPOCHS"])
def test_variables_that_a_parser_reads_are_parameters(folder: Folder, name: str) -> None:
    folder.write(train_py=CLICK)
    assert f"env.{name}" in folder.wire(environ={name: "4"})["params"]
    assert f"env.{name}" not in folder.wire()["params"]


def test_variables_that_a_shell_script_reads_are_parameters(folder: Folder) -> None:
    folder.write(run_sh="for r in ${RATES:-1 2}; do python train.py $EXTRA; done\n")
    params = folder.wire("bash", "run.sh", environ={"RATES": "1", "EXTRA": "--x", "OTHER": "1"})
    assert {"env.RATES", "env.EXTRA"} <= params["params"].keys()
    assert "env.OTHER" not in params["params"]
    inline = folder.wire("bash", "-c", "python train.py --seed $SEED", environ={"SEED": "3"})
    assert inline["seeds"].keys() == {"env.SEED"}


def test_a_shell_script_that_computes_names_of_variables_is_not_compared(folder: Folder) -> None:
    folder.write(run_sh="python train.py --lr ${!name}\n")
    assert folder.wire("sh", "run.sh")["not_compared"] == [
        "environment variables with a computed name"
    ]


def test_a_secret_that_a_shell_script_reads_is_not_hashed(folder: Folder) -> None:
    folder.write(run_sh="WANDB_API_KEY=$MY_API_KEY python train.py\n")
    wire = folder.wire("sh", "run.sh", environ={"MY_API_KEY": "abc"})
    assert wire["dropped"]["env.MY_API_KEY"] == ""
    assert "env.MY_API_KEY" not in wire["params"]


@pytest.mark.parametrize(
    "name", ["SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "PBS_ARRAYID", "LSB_JOBINDEX", "SGE_TASK_ID"]
)
def test_the_number_of_a_task_in_an_array_is_a_parameter(folder: Folder, name: str) -> None:
    folder.write(train_py=f"import os\nindex = os.environ['{name}']\n")
    assert f"env.{name}" in folder.wire(environ={name: "4"})["params"]


def test_variables_that_a_launcher_sets_are_parameters(folder: Folder) -> None:
    program = ("python", "train.py")
    for command in (
        ("srun", "--export=ALL,LR=0.1", *program),
        ("srun", "--export", "LR=0.1", *program),
        ("mpirun", "-n", "2", "-x", "LR=0.1", *program),
    ):
        assert "env.LR" in folder.wire(*command)["params"], command


def test_options_of_the_scheduler_are_not_the_program(folder: Folder) -> None:
    plain = folder.wire("srun", "-n", "2", "python", "train.py")
    written_out = folder.wire("srun", "--ntasks=2", "--gres", "gpu:1", "python", "train.py")
    assert written_out["params"] == plain["params"]
    assert written_out["entry"] == plain["entry"]


def test_parameters_of_papermill_in_one_text_count(folder: Folder) -> None:
    folder.put("a.ipynb", '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    hashes = {
        str(folder.wire("papermill", "a.ipynb", "b.ipynb", *words)["params"])
        for words in (
            ("-y", "{lr: 1}"),
            ("-y", "{lr: 2}"),
            ("--parameters_yaml={lr: 3}",),
            ("-b", "bHI6IDE="),
            (),
        )
    }
    assert len(hashes) == 5


def test_an_existing_cache_that_the_code_reads_is_not_compared(folder: Folder) -> None:
    folder.write(
        train_py="from pathlib import Path\n"
        "cache = Path('.cache') / (name + '.json')\n"
        "rows = cache.read_text()\n"
    )
    assert folder.wire()["not_compared"] == []
    folder.put(".cache/a.json", "[]")
    assert folder.wire()["not_compared"] == ["the content of .cache"]


def test_a_second_table_with_a_constant_path_is_not_compared(folder: Folder) -> None:
    folder.put("data/a.csv", "1")
    folder.put("classes.csv", "2")
    folder.write(train_py="load(args.data)\nopen('classes.csv')\nopen('result.csv', 'w')\n")
    folder.put("result.csv", "3")
    wire = folder.wire("python", "train.py", "--data", "data/a.csv")
    assert wire["not_compared"] == ["the content of classes.csv"]


def test_an_option_before_a_file_that_sets_it_has_a_label(folder: Folder) -> None:
    folder.put("a.json", '{"lr": 1}')
    after = folder.wire("python", "train.py", "--config", "a.json", "--lr", "2")
    before = folder.wire("python", "train.py", "--lr", "2", "--config", "a.json")
    assert after["params"] == before["params"]
    assert after["labels"] != before["labels"]
    other = folder.wire("python", "train.py", "--epochs", "2", "--config", "a.json")
    assert other["labels"] == {}


def test_a_flag_that_turns_its_default_off_is_a_parameter(folder: Folder) -> None:
    folder.write(
        train_py="p.add_argument('--plain', dest='fancy', action='store_false', default=True)\n"
        "p.add_argument('--big', dest='size', action='store_const', const=10, default=1)\n"
    )
    assert folder.wire("python", "train.py", "--plain")["params"].keys() == {"fancy"}
    assert folder.wire("python", "train.py", "--big")["params"].keys() == {"size"}
    assert folder.wire("python", "train.py")["params"] == {}


READER = "import os\ndef env(name, default=None):\n    return os.environ.get(name) or default\n"


@pytest.mark.parametrize("is_imported", [False, True])
def test_variables_that_a_helper_function_reads_are_parameters(
    folder: Folder, is_imported: bool
) -> None:
    calls = "LR = env('LR', 0.1)\nSEED = env('SEED')\n"
    folder.put("tools.py", READER)
    folder.write(train_py=("from tools import env\n" if is_imported else READER) + calls)
    wire = folder.wire(environ={"LR": "0.2", "SEED": "1", "OTHER": "1"})
    assert wire["params"].keys() == {"env.LR"}
    assert wire["seeds"].keys() == {"env.SEED"}
    assert wire["not_compared"] == []
    assert folder.wire(environ={"LR": "0.10"})["params"] == {}


@pytest.mark.parametrize(
    "use",
    [
        "from tools import env\nenv(name)\n",
        "from tools import env as read\nread('LR')\n",
        "from tools import env\nlist(map(env, names))\n",
        "import tools\ntools.env(name='LR')\n",
    ],
)
def test_a_helper_function_with_a_computed_name_is_not_compared(folder: Folder, use: str) -> None:
    folder.put("tools.py", READER)
    folder.write(train_py=use)
    assert folder.wire()["not_compared"] == ["environment variables with a computed name"]


def test_a_file_of_variables_with_another_name_is_read(folder: Folder) -> None:
    folder.write(train_py="load_dotenv('settings/run.env')\nos.environ['LR']\n")
    folder.put("settings/run.env", "LR=0.1\n")
    before = folder.wire()["params"]
    folder.put("settings/run.env", "LR=0.2\n")
    assert folder.wire()["params"]["env.LR"] != before["env.LR"]


def test_a_file_of_variables_that_replaces_the_environment_counts(folder: Folder) -> None:
    folder.write(train_py="load_dotenv(override=True)\nos.environ['LR']\n")
    folder.put(".env", "LR=0.1\n")
    before = folder.wire(environ={"LR": "5"})["params"]
    folder.put(".env", "LR=0.2\n")
    assert folder.wire(environ={"LR": "5"})["params"] != before


def test_a_file_of_variables_above_the_script_is_found(folder: Folder) -> None:
    folder.put("src/train.py", "load_dotenv()\nos.environ['LR']\n")
    folder.put(".env", "LR=0.1\n")
    nested = Folder(folder.root / "src", folder.home)
    assert "env.LR" in nested.wire()["params"]


@pytest.mark.parametrize("name", ["train.py", "deep.yaml"])
def test_indentation_of_other_files_is_in_the_normal_form(folder: Folder, name: str) -> None:
    if name == "train.py":
        texts = ["if x = 1:\n  a()\nb()\n", "if x = 1:\n  a()\n  b()\n"]  # no valid Python
    else:
        folder.write(train_py="open('deep.yaml')\nimport hydra\nhydra.main(config_name='x')\n")
        texts = ["a:\n  b: 1\nc: 2\n", "a:\n  b: 1\n  c: 2\n"]
    folder.put(name, texts[0])
    before = folder.wire()["code"]
    folder.put(name, texts[1])
    assert folder.wire()["code"]["hash"] != before["hash"]
    assert folder.wire()["code"]["normal"] != before["normal"]


def test_settings_of_invalid_code_are_not_compared(folder: Folder) -> None:
    folder.write(train_py="import os\nmatch = (os.environ['LR']\n")
    assert folder.wire()["not_compared"] == ["settings that a long or invalid file reads"]


def test_instructions_of_the_preprocessor_are_in_the_normal_form(folder: Folder) -> None:
    folder.write(train_py="load('kernel.cu')\n")
    folder.put("kernel.cu", "#define WIDTH 3\nint width() { return WIDTH; }\n")
    before = folder.wire()["code"]["normal"]
    folder.put("kernel.cu", "#define WIDTH 4\nint width() { return WIDTH; }\n")
    assert folder.wire()["code"]["normal"] != before
