"""Which model that is there could be adapted instead of training anew: what runs and artifacts have in common. Pure.

A term is something that two pieces of work can share: the same data, a word of their data's names, the same value of a
parameter that names an architecture, a word of what a model is for. Rare things say more than common ones: a term that many
models share counts less.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import IntegerChoices

MOST_TERMS = 40
_LONGEST = 40
_WORD = re.compile(r"[^\W\d_]+|\d+", re.UNICODE)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Parameters (as fingerprints call them) whose value names what is trained.
ARCHITECTURE = (
    "arch", "architecture", "model", "model_name", "model_type", "backbone", "base_model", "encoder", "network", "net",
)  # fmt: skip
# Tags and facts by which people and formats say what a model is for, and of which kind.
PURPOSE = ("task", "family", "pipeline_tag", "domain")
KIND_OF_MODEL = ("architecture", "architectures", "model_type", "base_model", "backbone")
# Words that name nothing: of files, splits, versions, training.
_EMPTY = frozenset(
    ("the", "and", "for", "with", "data", "dataset", "datasets", "train", "training", "test", "val", "valid", "validation",
     "eval", "full", "new", "old", "final", "best", "last", "latest", "raw", "clean", "processed", "split", "shard", "part",
     "images", "image", "img", "labels", "files", "file", "input", "inputs", "output", "outputs", "tmp", "temp", "model",
     "models", "checkpoint", "checkpoints", "ckpt", "weights", "epoch", "step", "run", "exp", "csv", "json", "jsonl",
     "parquet", "tar", "zip", "npz", "npy", "txt", "bin", "version", "copy", "true", "false", "none")
)  # fmt: skip


class TermKind(IntegerChoices):
    SAME_DATA = 1, "the same data"
    DATA_WORD = 2, "data of a like name"
    SAME_ARCHITECTURE = 3, "the same architecture"
    MODEL_WORD = 4, "a like kind of model"
    PURPOSE_WORD = 5, "a like purpose"


WEIGHT = {
    TermKind.SAME_DATA: 6, TermKind.SAME_ARCHITECTURE: 4, TermKind.DATA_WORD: 3, TermKind.PURPOSE_WORD: 3,
    TermKind.MODEL_WORD: 2,
}  # fmt: skip
# What must be shared: an architecture alone is no reason.
_SUBJECT = frozenset({TermKind.SAME_DATA, TermKind.DATA_WORD, TermKind.PURPOSE_WORD})
Term = tuple[int, str]
MOST_TOLD = 2  # kinds of what is shared that a person is told


@dataclass(frozen=True)
class Offer:
    """An artifact that shares something. ``shared``: kinds of terms, the weightiest first; ``words``: those of
    the first two, which are what is told."""

    artifact: int
    score: Fraction
    shared: tuple[TermKind, ...]
    words: tuple[str, ...]


def words(text: str) -> list[str]:
    """Return the words of a name that say something, in small letters, without a plural's s: 'cat-boxes_v2' → cat, box."""
    found = []
    for word in _WORD.findall(_CAMEL.sub(" ", text)):
        small = _singular(word.lower())
        if len(small) >= 3 and not small.isdecimal() and small not in _EMPTY and word.lower() not in _EMPTY:
            found.append(small[:_LONGEST])
    return list(dict.fromkeys(found))


def _singular(word: str) -> str:
    for end, instead in (("ies", "y"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss")):
        if word.endswith(end) and len(word) > len(end) + 1:
            return word[: -len(end)] + instead
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


def data_term(data: str) -> str:
    """Return the term of data known by content (part D of a fingerprint)."""
    return data[:_LONGEST]


def architecture_term(name: str, value_hash: str) -> str:
    """Return the term of a parameter's value, known by its hash."""
    return f"{name[:7]}:{value_hash}"[:_LONGEST]


def terms_of_work(
    *,
    data: str,
    data_names: Iterable[str],
    params: Mapping[str, str],
    told: Mapping[str, object],
    tags: Mapping[str, object],
) -> list[Term]:
    """Return the terms of a run, done or about to be. ``data``: part D by content, '' unknown; ``params``: name → hash;
    ``told``: values that may be told; ``tags``: of the run."""
    found: list[Term] = [(TermKind.SAME_DATA, data_term(data))] if data else []
    found += [(TermKind.DATA_WORD, word) for name in data_names for word in words(name)]
    found += [(TermKind.SAME_ARCHITECTURE, architecture_term(name, params[name])) for name in ARCHITECTURE if name in params]
    found += _model_words(told, ARCHITECTURE) + _purpose(tags)
    return list(dict.fromkeys(found))[:MOST_TERMS]


def terms_of_model(*, facts: Mapping[str, object], tags: Mapping[str, object]) -> list[Term]:
    """Return the terms of what an artifact says of itself."""
    return list(dict.fromkeys(_model_words({**tags, **facts}, KIND_OF_MODEL) + _purpose({**facts, **tags})))[:MOST_TERMS]


def _model_words(said: Mapping[str, object], names: Sequence[str]) -> list[Term]:
    return [(TermKind.MODEL_WORD, word) for name in names for word in words(str(said.get(name) or ""))]


def _purpose(said: Mapping[str, object]) -> list[Term]:
    return [(TermKind.PURPOSE_WORD, word) for name in PURPOSE for word in words(str(said.get(name) or ""))]


def offers(shared: Iterable[tuple[int, int, str]], common: Mapping[Term, int]) -> list[Offer]:
    """Return artifacts by what they share with a piece of work, the most first.

    ``shared``: (artifact, kind, term) for each term in common; ``common``: how many models have a term. What shares no data
    and no purpose is left out.
    """
    by_artifact: dict[int, list[Term]] = {}
    for artifact, kind, term in shared:
        by_artifact.setdefault(artifact, []).append((kind, term))
    found = []
    for artifact, terms in by_artifact.items():
        kinds = {TermKind(kind) for kind, _ in terms}
        if kinds & _SUBJECT:
            score = sum(
                (Fraction(WEIGHT[TermKind(kind)], 1 + (common.get((kind, term), 1) // 20)) for kind, term in terms),
                Fraction(),
            )
            weighty = tuple(sorted(kinds, key=lambda kind: -WEIGHT[kind]))
            told = set(weighty[:MOST_TOLD]) - {TermKind.SAME_DATA, TermKind.SAME_ARCHITECTURE}
            named = tuple(dict.fromkeys(term for kind, term in terms if kind in told))
            found.append(Offer(artifact, score, weighty, named))
    return sorted(found, key=lambda each: (-each.score, each.artifact))
