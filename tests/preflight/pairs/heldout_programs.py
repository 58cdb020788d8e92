"""Held-out pairs: shell scripts, launchers, programs that start programs, states of git,
notebooks, caches, labels that select work.
"""

from tests.preflight.pairs.model import PairList, RunSpec, read_source, table
from tests.preflight.pairs.notebook_pairs import ALL_CELLS, PAPERMILL, notebook

CORE = read_source("second_core")
TABLES = {
    "data/a.csv": table("x,y,z,label", 71),
    "data/b.csv": table("x,y,z,label", 72),
}
OTHER = table("x,y,z,label", 73)
PROGRAM = ("python", "train.py", "--data", "data/a.csv", "--lr", "0.1", "--seed", "4")
SHELL = RunSpec({**CORE, **read_source("second_shell"), **TABLES}, PROGRAM, folder="shell")
SWEEP = SHELL.run("bash", "sweep.sh", "data/a.csv", "0.1", "0.2")
MAKE = SHELL.run("make", "-s", "train", "LR=0.1", "DATA=data/a.csv")
JOB = SHELL.run("sh", "job.sh")
INLINE = SHELL.run(
    "bash", "-c", "for r in 0.1 0.2; do python train.py --data data/a.csv --lr $r; done"
)
DRIVER = RunSpec(
    {**CORE, **read_source("second_processes"), **TABLES},
    ("python", "driver.py", "--table", "data/a.csv", "--seed", "1"),
    folder="processes",
)
DISTRIBUTED = RunSpec(
    {**read_source("distributed"), "data/a.csv": table("a,b,c,label", 74)},
    ("srun", "-n", "2", *PROGRAM),
    folder="tasks",
)

BY_MPI = DISTRIBUTED.edit("train.py", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK").edit(
    "train.py", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"
)
BY_MPI = BY_MPI.run("mpirun", "-np", "2", *PROGRAM)

launcher = PairList("launcher")
same, different, replicate = launcher.same, launcher.different, launcher.replicate

same("held-sweep-repeat", SWEEP, SWEEP, "The shell script is repeated with equal arguments.")
same(
    "held-sweep-order",
    SWEEP,
    SWEEP.run("bash", "sweep.sh", "data/a.csv", "0.2", "0.1"),
    "The shell script trains with the same two rates in another order.",
)
same("held-sweep-seeds", SWEEP, SWEEP.env(SEEDS="1 2"), "The shell's default is written out.")
same("held-make-repeat", MAKE, MAKE.at("shell-2"), "make is started in another folder.")
same(
    "held-make-or-python",
    MAKE,
    SHELL,
    "make starts the command that the other run is.",
)
same(
    "held-srun-options",
    DISTRIBUTED,
    DISTRIBUTED.run("srun", "--ntasks=2", "--gres", "gpu:1", *PROGRAM),
    "The scheduler's options are written in another way.",
)
same(
    "held-srun-or-torchrun",
    DISTRIBUTED,
    DISTRIBUTED.run("torchrun", "--nproc_per_node", "2", *PROGRAM[1:]),
    "Two launchers start two processes.",
)
same(
    "held-job-repeat",
    JOB,
    JOB.edit("job.sh", "01:00:00", "02:00:00"),
    "Its time limit differs.",
    data_known=False,
)
same(
    "held-driver-logs",
    DRIVER,
    DRIVER.add("--log-dir", "l"),
    "The folder of the logs differs.",
    data_known=False,
)
same(
    "held-driver-default",
    DRIVER,
    DRIVER.add("--method", "ridge"),
    "A default is written out.",
    data_known=False,
)
same(
    "held-hard-unused-method",
    DRIVER,
    DRIVER.edit("methods/plain.py", "l2=0.0", "l2=0.3"),
    "A script that this run does not start was edited.",
    data_known=False,
)
different(
    "held-sweep-rates",
    SWEEP,
    SWEEP.swap("0.2", "0.3"),
    "One of the rates in the arguments of the shell script differs.",
)
different(
    "held-hard-sweep-variable",
    SWEEP,
    SWEEP.env(EXTRA="--epochs 4"),
    "A variable that only the shell script reads has options.",
)
different(
    "held-hard-sweep-seeds-variable",
    SWEEP,
    SWEEP.env(SEEDS="1 2 3"),
    "A variable that only the shell script reads has one seed more.",
)
different("held-make-variable", MAKE, MAKE.swap("LR=0.1", "LR=0.2"), "Another rate for make.")
different(
    "held-hard-make-environment",
    MAKE.swap("LR=0.1").env(LR="0.1"),
    MAKE.swap("LR=0.1").env(LR="0.4"),
    "make takes the rate from the environment.",
)
different(
    "held-hard-makefile-edited",
    MAKE,
    MAKE.edit("Makefile", "--seed 4", "--epochs 5 --seed 4"),
    "The command in the Makefile was edited.",
)
different(
    "held-hard-sourced-file",
    JOB,
    JOB.edit("settings.sh", "0.3", "0.4"),
    "The file that the shell script sources has another rate.",
    data_known=False,
)
different(
    "held-inline-shell",
    INLINE,
    INLINE.run("bash", "-c", INLINE.command[-1].replace("0.2", "0.3")),
    "The code in the argument of bash -c has another rate.",
)
different(
    "held-srun-tasks",
    DISTRIBUTED,
    DISTRIBUTED.option("-n", "4"),
    "More tasks make the global batch larger.",
)
same("held-mpirun-option", BY_MPI, BY_MPI.swap("-np", "-n"), "An option has another name.")
different("held-mpirun-tasks", BY_MPI, BY_MPI.option("-np", "3"), "More tasks are started.")
different(
    "held-hard-started-method",
    DRIVER,
    DRIVER.edit("methods/ridge.py", "l2=0.1", "l2=0.2"),
    "The script whose name the code computes was edited.",
    data_known=False,
)
different(
    "held-hard-preparation",
    DRIVER,
    DRIVER.edit("prepare.py", "[:31]", "[:30]"),
    "The script that the code starts first was edited.",
    data_known=False,
)
different(
    "held-driver-method",
    DRIVER,
    DRIVER.add("--method", "plain"),
    "Another script starts.",
    data_known=False,
)
replicate(
    "held-driver-seed",
    DRIVER,
    DRIVER.option("--seed", "2"),
    "Only the seed differs.",
    data_known=False,
)
replicate(
    "held-sweep-other-seeds",
    SHELL.run("bash", "-c", "python train.py --data data/a.csv --lr 0.1 --seed $SEED").env(
        SEED="1"
    ),
    SHELL.run("bash", "-c", "python train.py --data data/a.csv --lr 0.1 --seed $SEED").env(
        SEED="2"
    ),
    "The seed is a variable of the shell.",
)

argparse = PairList("argparse")
same, different, replicate = argparse.same, argparse.different, argparse.replicate
COMMITTED = SHELL.commit("Add training")
LABELLED = SHELL.edit(
    "train.py", "epochs), args", "epochs * (2 if args.tag == 'long' else 1)), args"
).add("--tag", "short")
CACHED = SHELL.edit(
    "train.py",
    "rng = random.Random(args.seed)",
    "import json\nfrom pathlib import Path\n\nrng = random.Random(args.seed)\n"
    'cache = Path(".cache") / (Path(args.data).stem + ".json")\n'
    "if cache.exists():\n    report(fit(json.loads(cache.read_text()), rng, args.lr), args.seed)\n"
    "    raise SystemExit",
)
PLUGIN = SHELL.edit(
    "train.py",
    "from core import",
    "import importlib\n\nmodel = importlib.import_module('models.' + 'linear')\nfrom core import",
).edit("train.py", "report(fit(", "report(model.fit(")
PLUGIN = PLUGIN.write(
    "models/linear.py", "import core\n\n\ndef fit(*a):\n    return core.fit(*a, l2=0.1)\n"
)
SEED_IN_CODE = SHELL.edit("train.py", "rng = random.Random(args.seed)", "args.seed = 1234\n"
                          "rng = random.Random(args.seed)").run(*PROGRAM[:6])  # fmt: skip

same(
    "held-git-dirty-or-committed",
    COMMITTED,
    SHELL.commit("Start", core_py="raise SystemExit\n"),
    "Equal files: once committed, once changed after an older commit.",
)
same(
    "held-git-untracked-import",
    COMMITTED,
    SHELL.commit("Start", core_py=None),
    "Equal files: an imported file is committed, and not committed.",
)
same(
    "held-hard-git-readme",
    COMMITTED,
    SHELL.write("notes/plan.md", "# Plan\n").commit("Add a plan", notes__plan_md=None),
    "A file without influence exists, but is not committed.",
)
same(
    "held-cache-repeat",
    CACHED,
    CACHED.add("--tag", "x"),
    "No cache exists for either run, and the tag differs.",
)
same("held-plugin-repeat", PLUGIN, PLUGIN, "A module is imported by a computed name.")
same("held-seed-in-code-repeat", SEED_IN_CODE, SEED_IN_CODE, "The code sets the seed.")
different(
    "held-git-untracked-import-edited",
    SHELL.commit("Start", core_py=None),
    SHELL.edit("core.py", "l2 * w", "2 * l2 * w + 0.01").commit("Start", core_py=None),
    "An imported file that is not committed differs.",
)
different("held-hard-tag-selects", LABELLED, LABELLED.option("--tag", "long"), "A tag selects.")
different(
    "held-hard-cache-used",
    CACHED,
    CACHED.write(".cache/a.json", "[[0.1, 0.2, 0.3, 1.0], [0.3, 0.1, 0.2, 0.0]]"),
    "One run uses a cache, which has other rows.",
)
different(
    "held-hard-plugin-edited",
    PLUGIN,
    PLUGIN.edit("models/linear.py", "l2=0.1", "l2=0.2"),
    "A module that is imported by a computed name differs.",
)
different(
    "held-hard-plugin-untracked",
    PLUGIN.commit("Start", models__linear_py=None),
    PLUGIN.edit("models/linear.py", "l2=0.1", "l2=0.2").commit("Start", models__linear_py=None),
    "A module that is not committed, and is imported by a computed name, differs.",
)
replicate(
    "held-seed-in-code-edited",
    SEED_IN_CODE,
    SEED_IN_CODE.edit("train.py", "1234", "1235"),
    "The seed that the code sets was edited.",
)

books = PairList("notebook")
same, different, replicate = books.same, books.different, books.replicate
BOOK = RunSpec(
    {
        **read_source("notebooks"),
        "train.ipynb": notebook(*ALL_CELLS),
        "data/assay.csv": table("dose,time,label", 75, 25),
    },
    (*PAPERMILL, "train.ipynb", "out.ipynb", "-p", "rate", "0.2", "-p", "data", "data/assay.csv"),
    folder="book",
)
same(
    "held-papermill-verbose",
    BOOK,
    BOOK.add("-p", "verbose", "1"),
    "A parameter makes the notebook print more.",
)
same(
    "held-papermill-yaml",
    BOOK,
    BOOK.run(*PAPERMILL, "train.ipynb", "o2.ipynb", "-y", "{rate: 0.2, data: data/assay.csv}"),
    "The parameters are written as YAML in the command.",
)
different(
    "held-hard-papermill-yaml-value",
    BOOK.run(*PAPERMILL, "train.ipynb", "o2.ipynb", "-y", "{rate: 0.2, data: data/assay.csv}"),
    BOOK.run(*PAPERMILL, "train.ipynb", "o2.ipynb", "-y", "{rate: 0.3, data: data/assay.csv}"),
    "A parameter written as YAML in the command differs.",
)
replicate(
    "held-papermill-seed",
    BOOK.add("-p", "seed", "2"),
    BOOK.add("-p", "seed", "3"),
    "Only the seed differs.",
)

PAIRS = (*launcher.pairs, *argparse.pairs, *books.pairs)
