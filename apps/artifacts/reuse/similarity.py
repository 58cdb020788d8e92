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

MAX_TERMS = 40
_MAX_TERM_LENGTH = 40
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
_STOP_WORDS = frozenset(
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
MAX_REASONS = 2  # kinds of what is shared that a person is told


@dataclass(frozen=True)
class Similarity:
    """An artifact that shares something. ``shared``: kinds of terms, the weightiest first; ``words``: those of
    the first two, which are what is told."""

    artifact: int
    score: Fraction
    shared: tuple[TermKind, ...]
    words: tuple[str, ...]


def significant_words(text: str) -> list[str]:
    """Return the words of a name that say something, in small letters, without a plural's s: 'cat-boxes_v2' → cat, box."""
    result = []
    for word in _WORD.findall(_CAMEL.sub(" ", text)):
        small = _singular(word.lower())
        if len(small) >= 3 and not small.isdecimal() and small not in _STOP_WORDS and word.lower() not in _STOP_WORDS:
            result.append(small[:_MAX_TERM_LENGTH])
    return list(dict.fromkeys(result))


def _singular(word: str) -> str:
    for end, instead in (("ies", "y"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss")):
        if word.endswith(end) and len(word) > len(end) + 1:
            return word[: -len(end)] + instead
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


def data_term(data: str) -> str:
    """Return the term of data known by content (part D of a fingerprint)."""
    return data[:_MAX_TERM_LENGTH]


def architecture_term(name: str, value_hash: str) -> str:
    """Return the term of a parameter's value, known by its hash."""
    return f"{name[:7]}:{value_hash}"[:_MAX_TERM_LENGTH]


def terms_of_work(
    *,
    data: str,
    data_names: Iterable[str],
    params: Mapping[str, str],
    values: Mapping[str, object],
    tags: Mapping[str, object],
) -> list[Term]:
    """Return the terms of a run, done or about to be. ``data``: part D by content, '' unknown; ``params``: name → hash;
    ``told``: values that may be told; ``tags``: of the run."""
    terms: list[Term] = [(TermKind.SAME_DATA, data_term(data))] if data else []
    terms += [(TermKind.DATA_WORD, word) for name in data_names for word in significant_words(name)]
    terms += [(TermKind.SAME_ARCHITECTURE, architecture_term(name, params[name])) for name in ARCHITECTURE if name in params]
    terms += _model_words(values, ARCHITECTURE) + _purpose_words(tags)
    return list(dict.fromkeys(terms))[:MAX_TERMS]


def terms_of_model(*, facts: Mapping[str, object], tags: Mapping[str, object]) -> list[Term]:
    """Return the terms of what an artifact says of itself."""
    return list(dict.fromkeys(_model_words({**tags, **facts}, KIND_OF_MODEL) + _purpose_words({**facts, **tags})))[
        :MAX_TERMS
    ]


def _model_words(values: Mapping[str, object], names: Sequence[str]) -> list[Term]:
    return [(TermKind.MODEL_WORD, word) for name in names for word in significant_words(str(values.get(name) or ""))]


def _purpose_words(values: Mapping[str, object]) -> list[Term]:
    return [(TermKind.PURPOSE_WORD, word) for name in PURPOSE for word in significant_words(str(values.get(name) or ""))]


def rank_similar(shared: Iterable[tuple[int, int, str]], common: Mapping[Term, int]) -> list[Similarity]:
    """Return artifacts by what they share with a piece of work, the most first.

    ``shared``: (artifact, kind, term) for each term in common; ``common``: how many models have a term. What shares no data
    and no purpose is left out.
    """
    by_artifact: dict[int, list[Term]] = {}
    for artifact, kind, term in shared:
        by_artifact.setdefault(artifact, []).append((kind, term))
    similarities = []
    for artifact, terms in by_artifact.items():
        kinds = {TermKind(kind) for kind, _ in terms}
        if kinds & _SUBJECT:
            score = sum(
                (Fraction(WEIGHT[TermKind(kind)], 1 + (common.get((kind, term), 1) // 20)) for kind, term in terms),
                Fraction(),
            )
            ordered_kinds = tuple(sorted(kinds, key=lambda kind: -WEIGHT[kind]))
            reason_kinds = set(ordered_kinds[:MAX_REASONS]) - {TermKind.SAME_DATA, TermKind.SAME_ARCHITECTURE}
            named = tuple(dict.fromkeys(term for kind, term in terms if kind in reason_kinds))
            similarities.append(Similarity(artifact, score, ordered_kinds, named))
    return sorted(similarities, key=lambda each: (-each.score, each.artifact))
