"""Whom preflight warns and where it stays silent: (what, question, past runs, verdict, level, certainty)."""

# ruff: noqa: E501  (a table is read by its rows)
from dataclasses import replace
from typing import Any

from apps.preflight.similarity import Part, PastRun, Question
from tests.preflight.works import argv, digest, hashed, part, past, question, run_uuid, weak, work

Case = tuple[str, Question, list[PastRun], str, str, str]
FAILED: dict[str, Any] = {
    "state": "failed",
    "failure": "user_error",
    "failure_point": digest("line 7"),
}
UNSEEDED = work(argv(seed=None))
POSSIBLE_DATA = work(data=weak("cats"))
NORMAL = work(code="b", normal="a")  # other text, the same but for comments and format


def _seeded(seed: int, **facts: Any) -> PastRun:
    return past(f"seed {seed}", work=work(argv(seed=str(seed))), **facts)


def _grid(lr: str, wd: str, **facts: Any) -> PastRun:
    facts.setdefault("hours_ago", 3)
    return past(f"{lr} {wd}", work=work(argv(lr=lr, wd=wd)), **facts)


def _siblings(**facts: Any) -> list[PastRun]:
    return [_grid(lr, wd, **facts) for lr in ("0.1", "0.2") for wd in ("0", "0.01")]


def _order(given: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(given.items()))


WARNED: list[Case] = [
    # Done already
    ("the same work, finished", question(), [past()], "duplicate", "warn", "verified"),
    ("keys in another order", question(work=work(_order(argv()))), [past()], "duplicate", "warn", "verified"),
    ("a number written otherwise", question(work=work(argv(lr="1e-1"))), [past()], "duplicate", "warn", "verified"),
    ("a number with a zero more", question(work=work(argv(lr="0.10"))), [past()], "duplicate", "warn", "verified"),
    ("a number and its text", question(work=work(argv(lr=0.1))), [past()], "duplicate", "warn", "verified"),
    ("a whole number as a float", question(work=work(argv(epochs=10.0))), [past()], "duplicate", "warn", "verified"),
    ("true in other words", question(work=work(argv(amp="True"))), [past(work=work(argv(amp=True)))], "duplicate", "warn", "verified"),
    ("none in other words", question(work=work(argv(clip="None"))), [past(work=work(argv(clip="null")))], "duplicate", "warn", "verified"),
    ("an alias", question(work=work(argv(lr=None, learning_rate="0.1"))), [past()], "duplicate", "warn", "verified"),
    ("an alias of the seed", question(work=work(argv(seed=None, random_state="1"))), [past(work=work(argv()))], "duplicate", "warn", "verified"),
    ("nested and dotted", question(work=work({"optim": {"lr": 0.1}, "seed": 1})), [past(work=work({"optim.lr": "0.1", "seed": "1"}))], "duplicate", "warn", "verified"),
    ("another output folder", question(work=work(argv(out="/scratch/b"))), [past()], "duplicate", "warn", "verified"),
    ("another log frequency", question(work=work(argv(log_every="50"))), [past()], "duplicate", "warn", "verified"),
    ("other data-loader workers", question(work=work(argv(num_workers="8"))), [past()], "duplicate", "warn", "verified"),
    ("another port", question(work=work(argv(master_port="29501"))), [past()], "duplicate", "warn", "verified"),
    ("an amended commit has the same tree", question(work=work(code="tree 1")), [past(work=work(code="tree 1"))], "duplicate", "warn", "verified"),
    ("a rebased branch has the same tree", question(work=work(code="tree 2")), [past(work=work(code="tree 2"), hours_ago=900)], "duplicate", "warn", "verified"),
    ("a dirty tree with the same change", question(work=work(code="tree + diff")), [past(work=work(code="tree + diff"))], "duplicate", "warn", "verified"),
    ("a notebook run again: outputs do not count", question(work=work(code="cells")), [past(work=work(code="cells"))], "duplicate", "warn", "verified"),
    ("copied data: times differ, contents do not", question(work=work(data=part("cats", weak="other times"))), [past()], "duplicate", "warn", "verified"),
    ("other hardware", question(work=work(hardware={"gpus": "4 × H100"})), [past()], "duplicate", "warn", "verified"),
    ("other versions", question(work=work(environment={"python": "3.12.1"})), [past()], "duplicate", "warn", "verified"),
    ("finished a year ago", question(), [past(hours_ago=8760)], "duplicate", "warn", "verified"),
    ("finished once, failed later", question(), [past(), past("second", hours_ago=20, **FAILED)], "will_fail", "warn", "verified"),
    ("failed once, finished later", question(), [past(hours_ago=20), past("second", **FAILED)], "duplicate", "warn", "verified"),
    ("failed by the machine, finished before", question(), [past(), past("second", hours_ago=9, state="failed", failure="node")], "duplicate", "warn", "verified"),
    ("crashed with a checkpoint, finished since", question(), [past("a", state="killed", has_checkpoint=True), past("b", hours_ago=9)], "duplicate", "warn", "verified"),
    ("an exact repeat within a sweep", question(sweep="s1"), [past(), *_siblings()], "duplicate", "warn", "verified"),
    ("an exact repeat of a seed among seeds", question(), [_seeded(2), _seeded(3), past()], "duplicate", "warn", "verified"),
    ("a verified match beside a possible one", question(), [past("weak", work=POSSIBLE_DATA, hours_ago=1), past()], "duplicate", "warn", "verified"),
    ("an ablation repeated", question(intent="ablation"), [past()], "duplicate", "warn", "verified"),
    # Possible: a label differs, or a part is not compared
    ("another run name", question(work=work(argv(run_name="b"))), [past(work=work(argv(run_name="a")))], "duplicate", "inform", "possible"),
    ("a label where none was", question(work=work(argv(notes="again"))), [past()], "duplicate", "inform", "possible"),
    ("another label, running", question(work=work(argv(tags="b"))), [past(state="running")], "concurrent", "inform", "possible"),
    ("labels unknown there", question(), [past(work=work(labels=None))], "duplicate", "inform", "possible"),
    ("programs that nobody compared", question(work=work(not_compared=("programs that the code starts",))), [past()], "duplicate", "inform", "possible"),
    ("variables that nobody compared there", question(), [past(work=work(not_compared=("environment variables",)))], "duplicate", "inform", "possible"),
    ("a verified match beside one with another label", question(), [past("label", work=work(argv(tags="b")), hours_ago=1), past()], "duplicate", "warn", "verified"),
    # Ended by itself with an error, nobody knows why
    ("crashed with an exit code", question(), [past(state="failed", exit_code=1)], "will_fail", "inform", "possible"),
    ("crashed, data unknown", question(work=work(data=Part())), [past(work=work(data=Part()), state="failed", exit_code=1)], "will_fail", "inform", "possible"),
    ("crashed once, finished before", question(), [past(), past("second", hours_ago=9, state="failed", exit_code=1)], "duplicate", "warn", "verified"),
    # Data unknown: nothing is certain
    ("failed in the code, data unknown", question(work=work(data=Part())), [past(work=work(data=Part()), **FAILED)], "will_fail", "inform", "possible"),
    ("unknown data on both sides", question(work=work(data=Part())), [past(work=work(data=Part()))], "none", "inform", "possible"),
    ("unknown data there", question(), [past(work=work(data=Part()))], "none", "inform", "possible"),
    ("unknown start", question(work=work(start=Part())), [past(work=work(start=Part()))], "none", "inform", "possible"),
    # Possible: a part is known by names, sizes and times only
    ("data known here by its names only", question(work=POSSIBLE_DATA), [past()], "duplicate", "inform", "possible"),
    ("data known there by its names only", question(), [past(work=POSSIBLE_DATA)], "duplicate", "inform", "possible"),
    ("data known by its names on both sides", question(work=POSSIBLE_DATA), [past(work=POSSIBLE_DATA)], "duplicate", "inform", "possible"),
    ("the same commit of a tracker", question(work=replace(work(), code=Part("", digest("c")), normal="")), [past(work=replace(work(), code=Part("", digest("c")), normal=""))], "duplicate", "inform", "possible"),
    ("a start known by its names only", question(work=work(start=weak("ckpt"))), [past(work=work(start=part("ckpt")))], "duplicate", "inform", "possible"),
    ("running, as far as names tell", question(work=POSSIBLE_DATA), [past(state="running")], "concurrent", "inform", "possible"),
    ("a sure repeat beside a possible running one", question(), [past(), past("r", work=POSSIBLE_DATA, state="running")], "duplicate", "warn", "verified"),
    # Running now
    ("the same work running", question(), [past(state="running", hours_ago=1)], "concurrent", "loud", "verified"),
    ("running and finished before", question(), [past(), past("r", state="running", hours_ago=1)], "concurrent", "loud", "verified"),
    ("running again after it failed", question(), [past(**FAILED), past("r", state="running", hours_ago=1)], "concurrent", "loud", "verified"),
    ("the same work in another job, running", question(job="c/1"), [past(state="running", job="c/2")], "concurrent", "loud", "verified"),
    # Fails again
    ("failed in the code", question(), [past(**FAILED)], "will_fail", "warn", "verified"),
    ("failed in the code, without a seed", question(work=UNSEEDED), [past(work=UNSEEDED, **FAILED)], "will_fail", "warn", "verified"),
    ("failed twice at the same point", question(), [past(**FAILED), past("second", hours_ago=9, **FAILED)], "will_fail", "warn", "verified"),
    ("failed, as far as names tell", question(work=POSSIBLE_DATA), [past(**FAILED)], "will_fail", "inform", "possible"),
    ("not a number, same seed", question(), [past(state="failed", failure="nan")], "will_fail", "warn", "verified"),
    ("out of GPU memory on the same GPUs", question(), [past(state="failed", failure="cuda_memory")], "will_fail", "warn", "verified"),
    # Can be resumed
    ("killed with a checkpoint", question(), [past(state="killed", has_checkpoint=True)], "resume", "inform", "verified"),
    ("lost with a checkpoint", question(), [past(state="lost", has_checkpoint=True)], "resume", "inform", "verified"),
    ("preempted with a checkpoint", question(), [past(state="failed", failure="preempted", has_checkpoint=True)], "resume", "inform", "verified"),
    ("the machine failed, with a checkpoint", question(work=UNSEEDED), [past(work=UNSEEDED, state="failed", failure="node", has_checkpoint=True)], "resume", "inform", "verified"),
    # Nearly the same
    ("only comments and format changed", question(work=NORMAL), [past()], "near", "warn", "verified"),
    ("only comments changed, running", question(work=NORMAL), [past(state="running")], "near", "warn", "verified"),
    ("only comments changed, within a sweep", question(work=NORMAL, sweep="s"), [past()], "near", "warn", "verified"),
    ("a number within 1e-6", question(work=work(argv(lr="0.10000000001"))), [past()], "near", "warn", "verified"),
    ("two numbers within 1e-6", question(work=work(argv(lr="0.10000000001", wd="0.3"))), [past(work=work(argv(wd="0.30000000001")))], "near", "warn", "verified"),
    # Repeats without a seed, and more than five seeds
    ("a sixth run without a seed", question(work=UNSEEDED), [past(str(number), work=UNSEEDED) for number in range(5)], "replicate", "inform", "verified"),
    ("a sixth seed", question(), [_seeded(seed) for seed in range(2, 7)], "replicate", "inform", "verified"),
]  # fmt: skip

SILENT: list[Case] = [
    ("no seed on either side", question(work=UNSEEDED), [past(work=UNSEEDED)], "replicate", "silent", "verified"),
    ("no seed, running", question(work=UNSEEDED), [past(work=UNSEEDED, state="running")], "replicate", "silent", "verified"),
    ("a fifth run without a seed", question(work=UNSEEDED), [past(str(number), work=UNSEEDED) for number in range(4)], "replicate", "silent", "verified"),
    ("only comments changed, without a seed", question(work=replace(UNSEEDED, code=Part(digest("b")))), [past(work=UNSEEDED)], "replicate", "silent", "verified"),
    ("another entry of the repository", question(work=work(entry=digest("train_vit.py"))), [past()], "none", "silent", "verified"),
    ("another entry, only comments changed", question(work=replace(NORMAL, entry=digest("train_vit.py"))), [past()], "none", "silent", "verified"),
    ("unknown entry on both sides", question(work=work(entry="")), [past(work=work(entry=""))], "none", "silent", "verified"),
    ("unknown data, another seed", question(work=work(argv(seed="2"), data=Part())), [past(work=work(data=Part()))], "none", "silent", "verified"),
    ("unknown data, a replicate", question(work=work(data=Part()), intent="replicate"), [past(work=work(data=Part()))], "none", "silent", "verified"),
    ("no seed, among siblings of a day", question(work=UNSEEDED), [past(work=UNSEEDED), *(past(lr, hours_ago=3, work=work(argv(lr=lr, seed=None))) for lr in ("0.2", "0.3", "0.4"))], "replicate", "silent", "verified"),
    ("a tracker's commit", question(work=work(code="a", normal="")), [past(work=replace(work(), code=Part("", digest("c")), normal=""))], "none", "silent", "verified"),
    ("nothing of the kind", question(), [], "none", "silent", "verified"),
    ("another number", question(work=work(argv(lr="0.2"))), [past()], "none", "silent", "verified"),
    ("one parameter more", question(work=work(argv(wd="0.1"))), [past()], "none", "silent", "verified"),
    ("a number off by 1e-5", question(work=work(argv(lr="0.100001"))), [past()], "none", "silent", "verified"),
    ("whole numbers that are close", question(work=work(argv(steps="10000000"))), [past(work=work(argv(steps="10000001")))], "none", "silent", "verified"),
    ("a number within 1e-6 whose values are not told", question(work=replace(work(argv(lr="0.10000000001")), plain_values={})), [past()], "none", "silent", "verified"),
    ("one line of logic changed", question(work=work(code="b")), [past()], "none", "silent", "verified"),
    ("one line of logic and a number within 1e-6", question(work=work(argv(lr="0.10000000001"), code="b")), [past()], "none", "silent", "verified"),
    ("a dirty tree with another change", question(work=work(code="tree + other")), [past(work=work(code="tree + diff"))], "none", "silent", "verified"),
    ("a notebook with another cell", question(work=work(code="cells 2")), [past(work=work(code="cells"))], "none", "silent", "verified"),
    ("one data byte changed", question(work=work(data=part("cats 2"))), [past()], "none", "silent", "verified"),
    ("contents differ though names and times agree", question(work=work(data=Part(digest("new"), digest("weak cats")))), [past()], "none", "silent", "verified"),
    ("another start", question(work=work(start=part("epoch 3"))), [past()], "none", "silent", "verified"),
    ("unknown code on both sides", question(work=work(normal="", code="x")), [past(work=replace(work(), code=Part(), normal=""))], "none", "silent", "verified"),
    ("unknown parameters on both sides", question(work=replace(work(), params=None)), [past(work=replace(work(), params=None))], "none", "silent", "verified"),
    ("unknown seeds on both sides", question(work=replace(work(), seeds=None)), [past(work=replace(work(), seeds=None))], "replicate", "silent", "verified"),
    ("another seed", question(), [_seeded(2)], "replicate", "silent", "verified"),
    ("a third seed", question(), [_seeded(2), _seeded(3, state="running")], "replicate", "silent", "verified"),
    ("a fifth seed", question(), [_seeded(seed) for seed in range(2, 6)], "replicate", "silent", "verified"),
    ("a seed where none was", question(), [past(work=UNSEEDED)], "replicate", "silent", "verified"),
    ("another seed failed in the code", question(), [_seeded(2, **FAILED)], "none", "silent", "verified"),
    ("another seed left a checkpoint", question(), [_seeded(2, state="killed", has_checkpoint=True)], "none", "silent", "verified"),
    ("no seed, within a declared sweep", question(work=UNSEEDED, sweep="s1"), [past(work=UNSEEDED)], "sweep", "silent", "verified"),
    ("a grid over two keys", question(work=work(argv(lr="0.3", wd="0"))), _siblings(), "sweep", "silent", "verified"),
    ("a sweep's id, first of it", question(sweep="s1"), [], "sweep", "silent", "verified"),
    ("a declared sweep", question(work=work(argv(lr="0.2")), intent="sweep"), [past()], "sweep", "silent", "verified"),
    ("close numbers within a sweep", question(work=work(argv(lr="0.10000000001")), sweep="s1"), [past()], "sweep", "silent", "verified"),
    ("another seed within a sweep", question(sweep="s1"), [_seeded(seed) for seed in range(2, 9)], "sweep", "silent", "verified"),
    ("yesterday's siblings are no sweep", question(work=work(argv(lr="0.3", wd="0"))), _siblings(hours_ago=30), "none", "silent", "verified"),
    ("folds by a parameter", question(work=work(argv(fold="3"))), [past(f"f{i}", hours_ago=1, work=work(argv(fold=str(i)))) for i in range(3)], "sweep", "silent", "verified"),
    ("folds by data", question(work=work(data=part("fold 3"))), [past(f"f{i}", work=work(data=part(f"fold {i}"))) for i in range(3)], "none", "silent", "verified"),
    ("folds nested in one parent", question(parent=run_uuid("cv")), [past(f"f{i}", parent=run_uuid("cv"), hours_ago=1) for i in range(4)], "none", "silent", "verified"),
    ("a child of the same work", question(parent=run_uuid("outer")), [past("outer", state="running")], "none", "silent", "verified"),
    ("a parent of the same work", question(run=run_uuid("outer")), [past("inner", parent=run_uuid("outer"), state="running")], "none", "silent", "verified"),
    ("ranks of one job", question(job="c/1"), [past("rank 0", state="running", hours_ago=0, job="c/1")], "none", "silent", "verified"),
    ("asked again for the same run", question(run=run_uuid("first")), [past(state="running", hours_ago=0)], "none", "silent", "verified"),
    ("the same id of a tracker", question(external=("mlflow", "r1")), [past(external=frozenset({("mlflow", "r1")}))], "same_run", "silent", "verified"),
    ("told by two trackers: the same curves at the same time", question(series="s"), [past(hours_ago=0, series="s")], "same_run", "silent", "verified"),
    ("declared a replicate", question(intent="replicate"), [past()], "declared", "silent", "verified"),
    ("declared a replicate, without a seed", question(work=UNSEEDED, intent="replicate"), [past(work=UNSEEDED)], "declared", "silent", "verified"),
    ("a timing benchmark", question(intent="benchmark"), [past(), past("b", hours_ago=1)], "declared", "silent", "verified"),
    ("a probe of work that was done", question(intent="probe"), [past()], "declared", "silent", "verified"),
    ("a benchmark beside a running one", question(intent="benchmark"), [past(state="running")], "declared", "silent", "verified"),
    ("debugging what failed", question(intent="debug"), [past(**FAILED)], "declared", "silent", "verified"),
    ("a benchmark of something new", question(intent="benchmark"), [], "none", "silent", "verified"),
    ("preempted", question(), [past(state="failed", failure="preempted")], "none", "silent", "verified"),
    ("the machine failed", question(), [past(state="failed", failure="node")], "none", "silent", "verified"),
    ("out of the machine's memory", question(), [past(state="failed", failure="host_memory")], "none", "silent", "verified"),
    ("the data loader's shared memory", question(), [past(state="failed", failure="shared_memory")], "none", "silent", "verified"),
    ("a timeout", question(), [past(state="failed", exit_code=124)], "none", "silent", "verified"),
    ("crashed with another seed", question(), [_seeded(2, state="failed", exit_code=1)], "none", "silent", "verified"),
    ("crashed with other versions", question(work=work(environment={"python": "3.12.1"})), [past(state="failed", exit_code=1)], "none", "silent", "verified"),
    ("crashed, data unknown, finished since", question(work=work(data=Part())), [past(work=work(data=Part()), state="failed", exit_code=1), past("b", work=work(argv(seed="2"), data=Part()), hours_ago=9)], "none", "silent", "verified"),
    ("failed, nobody knows why", question(), [past(state="failed")], "none", "silent", "verified"),
    ("out of GPU memory on other GPUs", question(work=work(hardware={"gpus": "1 × H100"})), [past(state="failed", failure="cuda_memory")], "none", "silent", "verified"),
    ("out of GPU memory, GPUs unknown", question(work=work(hardware={})), [past(state="failed", failure="cuda_memory", work=work(hardware={}))], "none", "silent", "verified"),
    ("not a number, no seed", question(work=UNSEEDED), [past(work=UNSEEDED, state="failed", failure="nan")], "none", "silent", "verified"),
    ("failed with other versions", question(work=work(environment={"python": "3.12.1"})), [past(**FAILED)], "none", "silent", "verified"),
    ("failed here and there", question(), [past(**FAILED), past("b", hours_ago=9, **(FAILED | {"failure_point": digest("line 9")}))], "none", "silent", "verified"),
    ("killed by its user", question(), [past(state="killed")], "none", "silent", "verified"),
    ("lost", question(), [past(state="lost")], "none", "silent", "verified"),
    ("failed, but the line is mended", question(work=work(code="b")), [past(**FAILED)], "none", "silent", "verified"),
    ("comments changed and another seed", question(work=replace(NORMAL, seeds=hashed(argv(seed="2"))["seeds"])), [past()], "none", "silent", "verified"),
    ("comments changed since it failed for the machine", question(work=NORMAL), [past(state="failed", failure="node")], "none", "silent", "verified"),
    ("resumed: it starts from its checkpoint", question(work=work(start=part("ckpt"))), [past(state="killed", has_checkpoint=True)], "none", "silent", "verified"),
]  # fmt: skip
