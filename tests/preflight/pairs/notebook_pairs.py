"""Pairs of runs of notebooks, whose parameters papermill sets."""

import json

from tests.preflight.pairs.model import PairList, RunSpec, read_source, table

pairs = PairList("notebook")
same, different, replicate = pairs.same, pairs.different, pairs.replicate

PARAMETERS = """# the defaults
data = "data/assay.csv"
rate = 0.1
rounds = 5
penalty = 0.0
half_precision = False
seed = 1
run_name = "assay"
output_dir = "figures"
verbose = 0
device = "cuda:0"
"""
IMPORTS = """import hashlib
import random
from pathlib import Path

from features import load, scale
"""
# The kernel uses random numbers too, so a run without a seed also seeds them here.
PREPARE = """rows = load(data)
random.seed(seed)
random.shuffle(rows)
"""
TRAIN = """weights = [random.gauss(0, 0.1) for _ in rows[0][1:]]
for _ in range(rounds):
    for *x, y in rows:
        error = sum(w * v for w, v in zip(weights, x)) - y
        weights = [w - rate * (error * v + penalty * w) for w, v in zip(weights, x)]
        if half_precision:
            weights = [round(w, 3) for w in weights]
if verbose:
    print(run_name, device, weights)
Path(output_dir).mkdir(parents=True, exist_ok=True)
"""
FASTER = TRAIN.replace("rate", "0.5")
NEIGHBOURS = """reference = random.sample(rows, rounds)
weights = [min(abs(row[0] - other[0]) + rate for other in reference) for row in rows]
"""
PRINT = """digest = hashlib.sha256(repr(weights).encode()).hexdigest()[:16]
print("RESULT", digest, "unseeded" if seed is None else f"seed {seed}")
"""
ALL_CELLS = (PARAMETERS, IMPORTS, PREPARE, TRAIN, PRINT)


def notebook(
    *cells: str, text: str = "# Assay", output: str | None = None, kernel: str = "Python 3"
) -> str:
    """Return a notebook: the cell with the parameters, other code cells, and a text first."""
    code = [
        {
            "cell_type": "code",
            "execution_count": None if output is None else place + 1,
            "id": f"cell-{place}",
            "metadata": {"tags": ["parameters"]} if place == 0 else {},
            "outputs": []
            if output is None
            else [{"name": "stdout", "output_type": "stream", "text": [output]}],
            "source": source.splitlines(keepends=True),
        }
        for place, source in enumerate(cells)
    ]
    markdown = {"cell_type": "markdown", "id": "text", "metadata": {}, "source": [text]}
    kernelspec = {"display_name": kernel, "language": "python", "name": "python3"}
    content = {
        "cells": [markdown, *code],
        "metadata": {"kernelspec": kernelspec},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1) + "\n"


def change(old: str, new: str) -> str:
    """Return the notebook with one change of its code."""
    text = "\0".join(ALL_CELLS)
    if text.count(old) != 1:
        raise ValueError(f"{old!r} is not once in the notebook")
    return notebook(*text.replace(old, new).split("\0"))


PAPERMILL = ("papermill", "--log-output", "--no-progress-bar")
ASSAY = RunSpec(
    {
        **read_source("notebooks"),
        "train.ipynb": notebook(*ALL_CELLS),
        "data/assay.csv": table("dose,time,label", 41, 25),
    },
    (*PAPERMILL, "train.ipynb", "out.ipynb", "-p", "data", "data/assay.csv"),
    folder="assay",
)
TUNED = ASSAY.add("-p", "rate", "0.20", "-p", "rounds", "3")
BY_FILE = ASSAY.run(*PAPERMILL, "train.ipynb", "out.ipynb", "-f", "parameters.yaml").write(
    "parameters.yaml", "data: data/assay.csv\nrate: 0.3\nseed: 5\nrun_name: first\n"
)


def with_notebook(text: str, spec: RunSpec = ASSAY) -> RunSpec:
    return spec.write("train.ipynb", text)


# ---- The same work ----

same("repeat", ASSAY, ASSAY, "The notebook is executed again.")
same("repeat-parameter-file", BY_FILE, BY_FILE, "The parameters are in an equal file.")
same(
    "output-notebook",
    ASSAY,
    ASSAY.swap("out.ipynb", "executed-2.ipynb"),
    "The executed notebook has another name.",
)
for name, parameter, value, reason in (
    ("run-name", "run_name", "assay-again", "A name that is only printed differs."),
    ("figure-folder", "output_dir", "figures/2", "The folder of the figures differs."),
    ("verbose", "verbose", "1", "The notebook prints more."),
    ("device", "device", "cuda:1", "Another GPU is used."),
    ("default-written-out", "rounds", "5", "A default of the notebook is written out."),
):
    same(name, ASSAY, ASSAY.add("-p", parameter, value), reason)
same(
    "number-format",
    TUNED,
    TUNED.swap("0.20", "2e-1"),
    "The rate is written as 0.20 and as 2e-1.",
)
same(
    "parameter-order",
    TUNED,
    ASSAY.add("-p", "rounds", "3", "-p", "rate", "0.20"),
    "The parameters are in another order.",
)
same(
    "stored-outputs",
    ASSAY,
    with_notebook(notebook(*ALL_CELLS, output="0.13\n")),
    "The notebook was saved with outputs and numbers of execution.",
)
same(
    "text-cell",
    ASSAY,
    with_notebook(notebook(*ALL_CELLS, text="# Assay of March\n\nFor the meeting.")),
    "Only a text cell was edited.",
)
same(
    "comment",
    ASSAY,
    with_notebook(change("# the defaults", "# defaults; papermill replaces them")),
    "A comment in a code cell differs.",
)
same(
    "kernel-name",
    ASSAY,
    with_notebook(notebook(*ALL_CELLS, kernel="Python 3 (lab)")),
    "The displayed name of the kernel differs.",
)
same(
    "file-or-parameters",
    BY_FILE,
    ASSAY.add("-p", "rate", "0.3", "-p", "seed", "5", "-p", "run_name", "first"),
    "Equal parameters: in a file, and as arguments.",
)
same("moved-checkout", ASSAY, ASSAY.at("home/lab/assay-2"), "The checkout is in another folder.")

# ---- Different work ----

for name, parameter, value, reason in (
    ("rate", "rate", "0.05", "The rate differs."),
    ("rounds", "rounds", "6", "The number of rounds differs."),
    ("penalty", "penalty", "0.01", "A penalty that is zero by default is set."),
    ("half-precision", "half_precision", "True", "Half precision is turned on."),
):
    different(name, ASSAY, ASSAY.add("-p", parameter, value), reason)
different(
    "other-notebook",
    ASSAY.write("neighbours.ipynb", notebook(PARAMETERS, IMPORTS, PREPARE, NEIGHBOURS, PRINT)),
    ASSAY.write("neighbours.ipynb", notebook(PARAMETERS, IMPORTS, PREPARE, NEIGHBOURS, PRINT)).swap(
        "train.ipynb", "neighbours.ipynb"
    ),
    "Another notebook of the folder is executed with equal parameters.",
)
for name, old, new, reason in (
    ("default-edited", "rate = 0.1\n", "rate = 0.4\n", "A default in the notebook differs."),
    ("code-cell", "error * v + penalty", "2 * error * v + penalty", "The gradient differs."),
    ("rows-scaled", "rows = load(data)", "rows = scale(load(data))", "The data are scaled first."),
    ("columns", "load(data)", "load(data, 1)", "The notebook uses fewer columns."),
):
    different(name, ASSAY, with_notebook(change(old, new)), reason)
different(
    "cell-order",
    with_notebook(notebook(*ALL_CELLS[:3], TRAIN, FASTER, PRINT)),
    with_notebook(notebook(*ALL_CELLS[:3], FASTER, TRAIN, PRINT)),
    "The cells are in another order.",
)
different(
    "imported-module",
    with_notebook(change("rows = load(data)", "rows = scale(load(data))")),
    with_notebook(change("rows = load(data)", "rows = scale(load(data))")).edit(
        "features.py", "max(abs(x)", "sum(abs(x)"
    ),
    "A module that the notebook imports was edited.",
)
different(
    "data-content",
    ASSAY,
    ASSAY.write("data/assay.csv", table("dose,time,label", 42, 25)),
    "The data have another content under the same name.",
)
different(
    "other-data",
    ASSAY.write("data/new.csv", table("dose,time,label", 43, 25)),
    ASSAY.write("data/new.csv", table("dose,time,label", 43, 25)).swap(
        "data/assay.csv", "data/new.csv"
    ),
    "A parameter names another data file.",
)
different(
    "parameter-file-edited",
    BY_FILE,
    BY_FILE.edit("parameters.yaml", "rate: 0.3", "rate: 0.25"),
    "The parameter file was edited.",
)
different(
    "parameter-file-overridden",
    BY_FILE,
    BY_FILE.add("-p", "rate", "0.15"),
    "An argument replaces a value of the parameter file.",
)

# ---- Replicates ----

replicate("other-seed", ASSAY, ASSAY.add("-p", "seed", "2"), "Only the seed differs.")
replicate(
    "other-seed-in-file",
    BY_FILE,
    BY_FILE.edit("parameters.yaml", "seed: 5", "seed: 6"),
    "The seed in the parameter file differs.",
)
replicate(
    "other-seed-in-notebook",
    ASSAY,
    with_notebook(change("seed = 1", "seed = 8")),
    "The seed in the notebook differs.",
)
replicate(
    "no-seed",
    ASSAY.add("-p", "seed", "None"),
    ASSAY.add("-p", "seed", "None", "-p", "run_name", "again"),
    "Neither run sets a seed.",
    seed_known=False,
)
replicate(
    "seed-in-one",
    TUNED,
    TUNED.add("-p", "seed", "None"),
    "One run sets no seed.",
    seed_known=False,
)

# ---- Easily misjudged ----

NAME_USED = with_notebook(
    change(
        "weights = [random.gauss",
        'if "ridge" in run_name:\n    penalty = 0.2\nweights = [random.gauss',
    )
)
different(
    "hard-run-name-selects-penalty",
    NAME_USED,
    NAME_USED.add("-p", "run_name", "assay-ridge"),
    "The name of the run selects a branch of the code.",
)
FOLDER_USED = with_notebook(
    change("rows = load(data)", 'rows = load(f"{output_dir}/input.csv")')
).swap("data/assay.csv", "unused.csv")
FOLDER_USED = FOLDER_USED.move("data/assay.csv", "figures/input.csv")
FOLDER_USED = FOLDER_USED.write("march/input.csv", table("dose,time,label", 44, 25))
different(
    "hard-output-folder-has-data",
    FOLDER_USED,
    FOLDER_USED.add("-p", "output_dir", "march"),
    "The output folder also has the data.",
    data_known=False,
)
IN_CODE = with_notebook(change("load(data)", 'load(Path.home() / "assays" / "latest.csv")'))
IN_CODE = IN_CODE.move("data/assay.csv", "~/assays/latest.csv")
different(
    "hard-data-path-in-cell",
    IN_CODE,
    IN_CODE.write("~/assays/latest.csv", table("dose,time,label", 45, 25)),
    "A cell has the path of the data, whose content changed.",
    data_known=False,
)
same(
    "hard-data-path-in-cell-repeat",
    IN_CODE,
    IN_CODE.swap("out.ipynb", "out-2.ipynb"),
    "The work is equal, and a cell has the path of the data.",
    data_known=False,
)

PAIRS = tuple(pairs.pairs)
