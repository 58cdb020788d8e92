"""Pairs of runs whose parameters are arguments of the command line."""

from tests.preflight.pairs.model import PairList, RunSpec, corpus, read_source, table

pairs = PairList("argparse")
same, different, replicate = pairs.same, pairs.different, pairs.replicate

CLASSIFY = RunSpec(
    {**read_source("classify"), "data/cells.csv": table("size,shape,label", 1)},
    ("python", "train.py", "--data", "data/cells.csv", "--lr", "0.10", "--epochs", "4",
     "--seed", "7"),
)  # fmt: skip
NAMED = CLASSIFY.add("--run-name", "baseline", "--output-dir", "results/baseline")
EXAMPLES = "".join(
    f'{{"x": [{a / 5}, {b / 5}, 1.0], "y": {(a - 2 * b) / 5}}}\n'
    for a in range(4)
    for b in range(3)
)
ADAPTER = RunSpec(
    {
        **read_source("adapter"),
        "base.json": '{"weights": [0.4, -0.2, 0.1]}\n',
        "train.jsonl": EXAMPLES,
    },
    ("python", "finetune.py", "--base-model", "base.json", "--train-file", "train.jsonl",
     "--rank", "4", "--seed", "11", "--output_dir", "adapter"),
    folder="lora",
)  # fmt: skip
LANGUAGE = RunSpec(
    {**read_source("language"), "texts/lab.txt": corpus(0, 1, 2, 3, 4, 5, 0, 2, 4)},
    ("python", "-m", "language.train", "texts/lab.txt", "--order", "1", "--seed", "5"),
    folder="ngrams",
)
CLUSTER = RunSpec(
    {
        **read_source("cluster"),
        "day1.csv": table("x,y,label", 2, 25),
        "day2.csv": table("x,y,label", 3, 25),
    },
    ("python", "main.py", "fit", "day1.csv", "day2.csv", "--k", "3", "--seed", "1"),
    folder="clusters",
)

# ---- The same work ----

same("repeat", CLASSIFY, CLASSIFY, "The command is repeated without any change.")
for name, option, value, reason in (
    ("output-folder", "--output-dir", "results/second", "Only the output folder differs."),
    ("run-name", "--run-name", "baseline-again", "Only the name of the run differs."),
):
    same(name, NAMED, NAMED.option(option, value), reason)
for name, extra, reason in (
    ("notes", ("--notes", "after lunch"), "A note was added."),
    ("tags", ("--tags", "cells", "paper"), "Tags were added."),
    ("log-level", ("--log-level", "WARNING"), "The log level is lower."),
    ("device", ("--device", "cuda:3"), "Another GPU of the node is used."),
    ("workers", ("--num-workers", "8"), "More workers load the data."),
    ("port", ("--port", "6010"), "Another port is used for the charts."),
    ("tracker-project", ("--wandb-project", "cells-2"), "Another project of the tracker is used."),
    ("quiet", ("--quiet",), "Only the amount of output differs."),
    ("default-value", ("--optimizer", "sgd"), "The default of an option is written out."),
):
    same(name, CLASSIFY, CLASSIFY.add(*extra), reason)
same(
    "number-format",
    CLASSIFY,
    CLASSIFY.option("--lr", "1e-1"),
    "The learning rate is written as 0.10 and as 1e-1.",
)
same(
    "argument-order",
    CLASSIFY,
    CLASSIFY.run(
        "python", "train.py", "--seed", "7", "--epochs", "4", "--lr", "0.10",
        "--data", "data/cells.csv",
    ),
    "The arguments are in another order.",
)  # fmt: skip
same(
    "equals-sign",
    CLASSIFY,
    CLASSIFY.run(
        "python", "train.py", "--data=data/cells.csv", "--lr=0.10", "--epochs=4", "--seed=7"
    ),
    "Options and values are joined by an equals sign.",
)  # fmt: skip
same(
    "comment-and-docstring",
    LANGUAGE,
    LANGUAGE.edit("language/counts.py", '"""Count the', '"""Return the number of the').edit(
        "language/counts.py",
        "    counts = {}\n",
        "    # by context, then by word\n    counts = {}\n\n",
    ),
    "A comment, a docstring and a blank line differ.",
)  # fmt: skip
same(
    "moved-checkout",
    LANGUAGE,
    LANGUAGE.at("home-of-bea/work/ngrams-copy"),
    "The checkout is in another folder.",
)
same(
    "committed-or-not",
    LANGUAGE.commit("Tune the order"),
    LANGUAGE.commit("Initial", language__counts_py="raise SystemExit\n"),
    "Equal files: once committed, once changed after an older commit.",
)

# ---- Different work ----

for name, option, value, reason in (
    ("learning-rate", "--lr", "0.01", "The learning rate differs."),
    ("epochs", "--epochs", "5", "The number of epochs differs."),
):
    different(name, NAMED, NAMED.option(option, value), reason)
for name, extra, reason in (
    ("optimizer", ("--optimizer", "momentum"), "The optimizer differs from the default."),
    ("regularisation", ("--l2", "0.001"), "A small penalty of the weights was added."),
    ("batch-size", ("--batch-size", "16"), "The batch size differs from the default."),
    ("mixed-precision", ("--precision", "bf16"), "The precision of the weights differs."),
):
    different(name, CLASSIFY, CLASSIFY.add(*extra), reason)
different(
    "other-script",
    CLASSIFY,
    CLASSIFY.swap("train.py", "train_stumps.py"),
    "Another script of the repository runs with equal arguments.",
)
different(
    "adapter-rank",
    ADAPTER,
    ADAPTER.option("--rank", "8"),
    "The rank of the adapter is a size, not the rank of a process.",
)
different("half-precision", ADAPTER, ADAPTER.add("--fp16"), "A flag turns on half precision.")
different(
    "base-model-content",
    ADAPTER,
    ADAPTER.edit("base.json", "-0.2", "-0.3"),
    "The base model has another content under the same name.",
)
different(
    "data-content",
    CLASSIFY,
    CLASSIFY.write("data/cells.csv", table("size,shape,label", 4)),
    "The table has another content under the same name.",
)
different(
    "one-more-line",
    LANGUAGE,
    LANGUAGE.write("texts/lab.txt", corpus(0, 1, 2, 3, 4, 5, 0, 2, 4, 5)),
    "The corpus has one line more.",
)
different(
    "other-module",
    LANGUAGE,
    LANGUAGE.swap("language.train", "language.evaluate"),
    "Another module of the package is started with equal arguments.",
)
different(
    "started-script",
    LANGUAGE,
    LANGUAGE.edit("clean.py", "len(word) > 1", "len(word) > 3"),
    "A script that the training starts as a subprocess was edited.",
)
different(
    "imported-module",
    CLASSIFY.add("--optimizer", "momentum"),
    CLASSIFY.add("--optimizer", "momentum").edit("optimizers.py", "0.9 * s", "0.99 * s"),
    "One number in an imported module differs.",
)
different(
    "default-in-code",
    LANGUAGE,
    LANGUAGE.edit("language/train.py", "default=0.1", "default=0.5"),
    "The default of an option that the command omits was edited.",
)
different(
    "subcommand",
    CLUSTER,
    CLUSTER.swap("fit", "medoids"),
    "The first argument selects another algorithm.",
)
different(
    "fewer-tables",
    CLUSTER,
    CLUSTER.swap("day2.csv"),
    "One of two tables is missing from the arguments.",
)

# ---- Replicates ----

replicate("other-seed", CLASSIFY, CLASSIFY.option("--seed", "8"), "Only the seed differs.")
replicate(
    "other-seed-and-folder",
    ADAPTER,
    ADAPTER.option("--seed", "12").option("--output_dir", "adapter-12"),
    "The seed and the output folder differ.",
)
replicate(
    "no-seed",
    CLASSIFY.swap("--seed").swap("7"),
    CLASSIFY.swap("--seed").swap("7"),
    "Neither run sets a seed.",
    seed_known=False,
)
replicate(
    "seed-in-one",
    CLUSTER,
    CLUSTER.edit("main.py", "random.seed(args.seed)", "random.seed()").edit(
        "main.py", 'f"seed {args.seed}"', '"unseeded"'
    ),
    "The code of one run ignores the seed it is given.",
    seed_known=False,
)

# ---- Easily misjudged ----

BRANCHING = LANGUAGE.edit(
    "language/train.py",
    "    rng = random.Random(args.seed)\n",
    '    if "bigram" in args.experiment:\n        args.order = 2\n'
    "    rng = random.Random(args.seed)\n",
).add("--experiment", "baseline")
different(
    "hard-experiment-selects-branch",
    BRANCHING,
    BRANCHING.option("--experiment", "bigram"),
    "The name of the experiment selects a branch of the code.",
)
PREFIXED = NAMED.edit(
    "train.py",
    "rows = load_rows(args.data)",
    'rows = load_rows(f"{args.data}/{args.run_name}.csv")',
).option("--data", "data")
PREFIXED = PREFIXED.write("data/baseline.csv", table("size,shape,label", 5))
PREFIXED = PREFIXED.write("data/treated.csv", table("size,shape,label", 6))
different(
    "hard-run-name-selects-data",
    PREFIXED,
    PREFIXED.option("--run-name", "treated"),
    "The name of the run is part of the path of the data.",
)
RESUMED = NAMED.edit(
    "train.py",
    "    optimizer = OPTIM",
    '    checkpoint = Path(args.output_dir, "start.txt")\n'
    "    if checkpoint.exists():\n"
    "        weights = [float(w) for w in checkpoint.read_text().split()]\n"
    "    optimizer = OPTIM",
).write("results/second/start.txt", "0.5 -0.5 0.1\n")
different(
    "hard-output-folder-is-input",
    RESUMED,
    RESUMED.option("--output-dir", "results/second"),
    "The output folder of one run has a checkpoint that the run starts from.",
)
CONSTANT = CLASSIFY.edit("train.py", "required=True", 'default="../shared-data/cells.csv"')
CONSTANT = CONSTANT.move("data/cells.csv", "../shared-data/cells.csv").swap("--data")
CONSTANT = CONSTANT.swap("data/cells.csv")
different(
    "hard-data-path-in-code",
    CONSTANT,
    CONSTANT.write("../shared-data/cells.csv", table("size,shape,label", 7)),
    "The data have another content, and only the code has their path.",
    data_known=False,
)
same(
    "hard-data-path-in-code-repeat",
    CONSTANT,
    CONSTANT.add("--run-name", "again"),
    "The work is equal, and only the code has the path of the data.",
    data_known=False,
)

PAIRS = tuple(pairs.pairs)
