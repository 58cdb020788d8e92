"""Pairs of runs that log parameters, names and tags to MLflow where it is installed."""

from tests.preflight.pairs.model import PairList, RunSpec, read_source, table

pairs = PairList("mlflow")
same, different, replicate = pairs.same, pairs.different, pairs.replicate


def ratings(step: int) -> str:
    """Return a table of ratings; another step gives other ratings."""
    lines = [f"u{place % 5},i{place * step % 7},{place * step % 11 / 10}" for place in range(1, 30)]
    return "\n".join(["user,item,rating", *lines]) + "\n"


STORE = {"MLFLOW_TRACKING_URI": "sqlite:///{root}/mlflow.db"}
RANKING = RunSpec(
    {**read_source("ranking"), "data/ratings.csv": ratings(3)},
    ("python", "train.py", "--ratings", "data/ratings.csv", "--lr", "0.10", "--seed", "2"),
    STORE,
    folder="ranking",
)
NAMED = RANKING.add("--run-name", "first", "--experiment", "ranking-march")
SEARCH = RunSpec(
    {**read_source("tuning"), "data/dose.csv": table("dose,effect,label", 51, 20)},
    ("python", "tune.py", "search.yaml"),
    STORE,
    folder="tuning",
)

# ---- The same work ----

same("repeat", RANKING, RANKING, "The command is repeated.")
same("repeat-search", SEARCH, SEARCH, "The search is repeated.")
for name, option, value, reason in (
    ("run-name", "--run-name", "second", "The name of the run in MLflow differs."),
    ("experiment-label", "--experiment", "ranking-april", "The experiment in MLflow differs."),
):
    same(name, NAMED, NAMED.option(option, value), reason)
for name, extra, reason in (
    ("tag", ("--tag", "purpose=paper"), "A tag was added."),
    ("description", ("--description", "for the meeting"), "A description was added."),
    ("default-written-out", ("--rank", "2"), "The default of an option is written out."),
):
    same(name, RANKING, RANKING.add(*extra), reason)
for name, variables, reason in (
    ("run-name-variable", {"MLFLOW_RUN_NAME": "night"}, "A variable names the run in MLflow."),
    (
        "experiment-variable",
        {"MLFLOW_EXPERIMENT_NAME": "doses"},
        "A variable names the experiment.",
    ),
    ("server", {"MLFLOW_TRACKING_URI": "sqlite:///{root}/other.db"}, "Another store of MLflow."),
    ("tracker-user", {"MLFLOW_TRACKING_USERNAME": "bea"}, "Another user of the tracker."),
):
    same(name, SEARCH, SEARCH.env(**variables), reason)
same(
    "run-name-in-file",
    SEARCH,
    SEARCH.edit("search.yaml", "run_name: search", "run_name: search 2 (tuesday)"),
    "The name of the run in the configuration file differs.",
)
same(
    "number-format",
    RANKING,
    RANKING.option("--lr", "1e-1"),
    "The learning rate is written as 0.10 and as 1e-1.",
)
same(
    "argument-order",
    RANKING,
    RANKING.run(
        "python", "train.py", "--seed", "2", "--lr", "0.10", "--ratings", "data/ratings.csv"
    ),
    "The arguments are in another order.",
)
same(
    "earlier-runs",
    SEARCH,
    SEARCH.write("mlruns/0/meta.yaml", "name: Default\n"),
    "The folder has records of earlier runs.",
)
same(
    "committed-or-not",
    RANKING.commit("Rank items"),
    RANKING.commit("Start", train_popular_py=None),
    "Equal files; another script is not committed yet in one run.",
)

# ---- Different work ----

for name, option, value, reason in (
    ("learning-rate", "--lr", "0.2", "The learning rate differs."),
    ("other-data", "--ratings", "data/new.csv", "Another data file is named."),
):
    spec = RANKING.write("data/new.csv", ratings(5))
    different(name, spec, spec.option(option, value), reason)
for name, extra, reason in (
    ("rank-of-factors", ("--rank", "3"), "The rank is the number of factors."),
    ("epochs", ("--epochs", "5"), "The number of epochs differs."),
    ("unlogged-parameter", ("--decay", "0.02"), "A parameter that is not logged differs."),
):
    different(name, NAMED, NAMED.add(*extra), reason)
different(
    "other-script",
    RANKING,
    RANKING.swap("train.py", "train_popular.py"),
    "Another script logs the same parameters.",
)
different(
    "data-content",
    RANKING,
    RANKING.write("data/ratings.csv", ratings(5)),
    "The data have another content under the same name.",
)
different(
    "update-code",
    RANKING,
    RANKING.edit("train.py", "(error * a + args.decay * b)", "(error * a)")
    .edit("train.py", "rng.gauss(0, 0.3) for _ in range(args.rank)] for user", "0.1] for user")
    .edit("train.py", "0.1] for user", "0.1] * args.rank for user"),
    "The start values and the update in the code differ.",
)
different(
    "same-name-other-rate",
    NAMED,
    NAMED.option("--lr", "0.11"),
    "Name and experiment in MLflow are equal; the learning rate differs.",
)
for name, old, new, reason in (
    ("search-range", "[-3, 0]", "[-4, 0]", "The range of the search differs."),
    ("trials", "trials: 4", "trials: 5", "The search has one trial more."),
    ("search-rate", "rate: 0.1", "rate: 0.05", "The learning rate differs."),
    ("passes", "passes: 3", "passes: 2", "The number of passes differs."),
):
    different(name, SEARCH, SEARCH.edit("search.yaml", old, new), reason)
different(
    "search-data-content",
    SEARCH,
    SEARCH.write("data/dose.csv", table("dose,effect,label", 52, 20)),
    "The data of the search have another content.",
)
different(
    "search-code",
    SEARCH,
    SEARCH.edit("tune.py", "bias -= rate * error", "bias -= rate * error / 2"),
    "One line of the code differs.",
)

# ---- Replicates ----

replicate("other-seed", RANKING, RANKING.option("--seed", "3"), "Only the seed differs.")
replicate(
    "other-seed-and-name",
    NAMED,
    NAMED.option("--seed", "4").option("--run-name", "first, seed 4"),
    "The seed and the name of the run differ.",
)
replicate(
    "search-seed",
    SEARCH,
    SEARCH.edit("search.yaml", "seed: 30", "seed: 31"),
    "The seed of the search differs.",
)
replicate(
    "no-seed",
    RANKING.swap("--seed").swap("2"),
    RANKING.swap("--seed").swap("2").add("--tag", "try=2"),
    "Neither run sets a seed.",
    seed_known=False,
)
replicate(
    "search-seed-in-one",
    SEARCH,
    SEARCH.edit("search.yaml", "seed: 30\n", ""),
    "One search sets no seed.",
    seed_known=False,
)

# ---- Easily misjudged ----

TAG_USED = RANKING.edit(
    "train.py",
    "    lines = ",
    '    if "loss=absolute" in args.tag:\n        args.lr /= 10\n    lines = ',
).add("--tag", "loss=squared")
different(
    "hard-tag-selects-rate",
    TAG_USED,
    TAG_USED.swap("loss=squared", "loss=absolute"),
    "A tag selects a branch of the code.",
)
NAME_USED = SEARCH.edit(
    "tune.py",
    "rng = random",
    'if "scaled" in os.environ.get("MLFLOW_RUN_NAME", ""):\n'
    "    rows = [[x / 2, y, label] for x, y, label in rows]\n"
    "rng = random",
)
different(
    "hard-run-name-variable-scales-data",
    NAME_USED,
    NAME_USED.env(MLFLOW_RUN_NAME="scaled-1"),
    "The name of the run in a variable of MLflow selects how the data are scaled.",
)
EXPERIMENT_DATA = NAMED.edit(
    "train.py", "Path(args.ratings)", 'Path("..", "store", args.experiment, args.ratings)'
).option("--ratings", "ratings.csv")
EXPERIMENT_DATA = EXPERIMENT_DATA.move("data/ratings.csv", "../store/ranking-march/ratings.csv")
EXPERIMENT_DATA = EXPERIMENT_DATA.write("../store/ranking-april/ratings.csv", ratings(8))
different(
    "hard-experiment-selects-data",
    EXPERIMENT_DATA,
    EXPERIMENT_DATA.option("--experiment", "ranking-april"),
    "The experiment in MLflow is a part of the path of the data.",
    data_known=False,
)
same(
    "hard-store-data-repeat",
    EXPERIMENT_DATA,
    EXPERIMENT_DATA.option("--run-name", "again"),
    "The work is equal; the code adds the folders of the data to the name in the arguments.",
    data_known=False,
)

PAIRS = tuple(pairs.pairs)
