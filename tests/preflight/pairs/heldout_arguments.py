"""Held-out pairs: arguments in classes and helper functions, decorators, fields of dataclasses."""

from tests.preflight.pairs.model import PairList, RunSpec, read_source, table

pairs = PairList("argparse")
same, different, replicate = pairs.same, pairs.different, pairs.replicate

CORE = read_source("second_core")
TABLES = {
    "data/a.csv": table("x,y,z,label", 51),
    "data/b.csv": table("x,y,z,label", 52),
}
OTHER = table("x,y,z,label", 53)
CLASS = RunSpec(
    {**CORE, **read_source("second_class"), **TABLES},
    ("python", "train.py", "data/a.csv", "--learning-rate", "0.05", "--seed", "3"),
    folder="class",
)
CLICK = RunSpec(
    {**CORE, **read_source("second_click"), **TABLES},
    ("python", "main.py", "train", "data/a.csv", "--lr", "0.2", "--seed", "5"),
    folder="click",
)
FIELDS = RunSpec(
    {**CORE, **read_source("second_fields"), **TABLES},
    ("python", "run_task.py", "--train_file", "data/a.csv", "--learning_rate", "5e-2",
     "--num_train_epochs", "3", "--seed", "42"),
    folder="fields",
)  # fmt: skip
FIELDS_JSON = FIELDS.run("python", "run_task.py", "args.json").write(
    "args.json", '{"train_file": "data/a.csv", "learning_rate": 0.05, "seed": 42}\n'
)
ENTRY = RunSpec(
    {**read_source("second_entry"), **TABLES},
    ("./lab-train", "--data=data/a.csv", "--lr=0.3", "--seed=2"),
    folder="entry",
)
INLINE = ENTRY.run(
    "python", "-c", "from lab.cli import main; main(lr=0.2, seed=4, data='data/a.csv')"
)

# ---- The same work ----

same(
    "held-abbreviated-option",
    CLASS,
    CLASS.swap("--learning-rate", "--learning"),
    "The name of an option is abbreviated, which argparse accepts.",
)
same("held-short-option", CLASS, CLASS.swap("--learning-rate", "-l"), "The short name is used.")
same(
    "held-joined-short-option",
    CLASS.add("-e", "4"),
    CLASS.add("-e4"),
    "A short option and its value are one word.",
)
same("held-default-flag", CLASS, CLASS.add("--scale"), "A flag that is on by default is written.")
same("held-verbosity", CLASS, CLASS.add("-vv"), "The amount of output differs.")
same("held-experiment-name", CLASS, CLASS.add("--exp-name", "b"), "The name differs.")
same("held-save-path", CLASS, CLASS.add("--save-path", "saved/b"), "The output folder differs.")
same(
    "held-default-in-helper",
    CLASS,
    CLASS.add("--weight-decay", "0"),
    "A default that a helper function declares is written out.",
)
same(
    "held-positional-last",
    CLASS,
    CLASS.run("python", "train.py", "--seed", "3", "--learning-rate", "0.05", "--", "data/a.csv"),
    "The positional argument is the last one, after two dashes.",
)
same(
    "held-repeated-option-replaces",
    CLASS,
    CLASS.add("--seed", "3", "--learning-rate", "0.050"),
    "An option is given twice with the same value.",
)
same(
    "held-last-value-counts",
    CLASS,
    CLASS.run(
        "python", "train.py", "data/a.csv", "--learning-rate", "0.5", "--seed", "3",
        "--learning-rate", "0.05",
    ),
    "An option is given twice; only its last value counts, and that is equal.",
)  # fmt: skip
same("held-click-repeat", CLICK, CLICK.add("--title", "again"), "Only the title differs.")
same(
    "held-click-default-flag",
    CLICK,
    CLICK.add("--keep"),
    "The default of a pair of flags is written out.",
)
same(
    "held-click-group-flag",
    CLICK,
    CLICK.run("python", "main.py", "--no-debug", *CLICK.command[2:]),
    "The default of the group's pair of flags is written out.",
)
same(
    "held-hf-log-and-save-steps",
    FIELDS,
    FIELDS.add("--logging_steps", "10", "--save_steps", "20", "--report_to", "wandb"),
    "Intervals of logging and saving differ.",
)
same(
    "held-hf-default-field",
    FIELDS,
    FIELDS.add("--weight_decay", "0.0"),
    "The default of a field is written out.",
)
same(
    "held-hf-output",
    FIELDS.add("--output_dir", "out/1"),
    FIELDS.add("--output_dir", "out/2", "--overwrite_output_dir", "true"),
    "The output folder differs and is overwritten.",
)
same(
    "held-hf-json-or-options",
    FIELDS,
    FIELDS_JSON,
    "The arguments are options, and in a JSON file.",
)
same(
    "held-entry-script-or-module",
    ENTRY,
    ENTRY.swap("./lab-train", "python", "-m", "lab"),
    "An installed command, and the module of its package, start the same function.",
)
same("held-inline-repeat", INLINE, INLINE, "The same code is an argument of python -c.")

# ---- Different work ----

different("held-no-shuffle", CLASS, CLASS.add("--no-shuffle"), "A flag turns something off.")
different("held-no-scale", CLASS, CLASS.add("--no-scale"), "The negative form of a flag is used.")
different(
    "held-repeated-option-collects",
    CLASS.add("--drop", "1", "--drop", "2"),
    CLASS.add("--drop", "2"),
    "An option that collects values is given once less.",
)
different(
    "held-hard-first-collected-value",
    CLASS.add("--drop", "1", "--drop", "5"),
    CLASS.add("--drop", "2", "--drop", "5"),
    "The first value of an option that collects values differs.",
)
different(
    "held-hard-abbreviation-differs",
    CLASS.swap("--learning-rate", "--lear"),
    CLASS.swap("--learning-rate", "--lear").option("--lear", "0.06"),
    "The value of an abbreviated option differs.",
)
different(
    "held-hard-default-in-helper-edited",
    CLASS,
    CLASS.edit("train.py", "type=int, default=3", "type=int, default=4"),
    "The default that a helper function declares was edited.",
)
different(
    "held-click-flip",
    CLICK,
    CLICK.add("--flip"),
    "The other one of a pair of flags is given.",
)
different("held-click-command", CLICK, CLICK.swap("train", "tune"), "Another command is given.")
different(
    "held-hard-click-automatic-variable",
    CLICK.swap("--lr").swap("0.2"),
    CLICK.swap("--lr").swap("0.2").env(HELD_TRAIN_EPOCHS="6"),
    "A variable whose name click derives from the option sets the epochs.",
)
different(
    "held-hard-click-variable",
    CLICK.swap("--lr").swap("0.2").env(HELD_LR="0.1"),
    CLICK.swap("--lr").swap("0.2").env(HELD_LR="0.3"),
    "The variable that is declared for an option differs.",
)
different(
    "held-click-second-table",
    CLICK,
    CLICK.swap("data/a.csv", "data/a.csv", "data/b.csv"),
    "A second table is a positional argument.",
)
different(
    "held-hf-samples",
    FIELDS,
    FIELDS.add("--max_train_samples", "20"),
    "Fewer samples are used.",
)
RESUMED = FIELDS.write("out/checkpoint-1/state.json", "[0.5, 0.1, -0.2, 0.3]")
different(
    "held-hard-hf-resumed",
    FIELDS,
    RESUMED.add("--resume_from_checkpoint", "out/checkpoint-1/state.json"),
    "One run continues from a checkpoint.",
)
different(
    "held-hf-batch",
    FIELDS,
    FIELDS.add("--per_device_train_batch_size", "4"),
    "The batch differs.",
)
different(
    "held-hard-hf-default-field-edited",
    FIELDS,
    FIELDS.edit("arguments.py", "weight_decay: float = 0.0", "weight_decay: float = 0.2"),
    "The default of a field was edited.",
)
different(
    "held-hf-json-edited",
    FIELDS_JSON,
    FIELDS_JSON.edit("args.json", "0.05", "0.06"),
    "The rate in the JSON file differs.",
)
different(
    "held-hard-project-file",
    ENTRY,
    ENTRY.edit("pyproject.toml", "epochs = 4", "epochs = 5"),
    "The program reads its settings from the project file, which has another value.",
)
different(
    "held-hard-inline-argument",
    INLINE,
    INLINE.run("python", "-c", INLINE.command[-1].replace("0.2", "0.4")),
    "The code in the argument of python -c has another rate.",
)
different(
    "held-hard-entry-in-code",
    ENTRY,
    ENTRY.edit("lab-train", "sys.exit(main())", "sys.exit(main(epochs=7))"),
    "The installed command calls its function with another value.",
)

# ---- Replicates ----

replicate("held-hf-seed", FIELDS, FIELDS.option("--seed", "43"), "Only the seed differs.")
replicate(
    "held-default-seed-edited",
    CLASS.swap("--seed").swap("3"),
    CLASS.swap("--seed").swap("3").edit("train.py", "default=13", "default=14"),
    "The default of the seed was edited.",
)
replicate(
    "held-inline-seed",
    INLINE,
    INLINE.run("python", "-c", INLINE.command[-1].replace("seed=4", "seed=5")),
    "The code in the argument of python -c has another seed.",
)

PAIRS = tuple(pairs.pairs)
