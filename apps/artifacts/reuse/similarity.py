"""Similarity of runs and models by shared terms. Pure.

A term is a property that two pieces of work can share: the same data, a word of the data's names, a
parameter value that names an architecture, or a word of the model's purpose. A term shared by many
models weighs less.
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
# Parameters (by their names in fingerprints) whose value names an architecture.
ARCHITECTURE = (
    "arch", "architecture", "model", "model_name", "model_type", "backbone", "base_model",
    "encoder", "network", "net",
)  # fmt: skip
# Tags and facts that contain a model's purpose and its kind.
PURPOSE = ("task", "family", "pipeline_tag", "domain")
KIND_OF_MODEL = ("architecture", "architectures", "model_type", "base_model", "backbone")
# Words without meaning: of files, splits, versions, training.
_STOP_WORDS = frozenset(
    (
    "the", "and", "for", "with", "data", "dataset", "datasets", "train", "training", "test", "val",
    "valid", "validation", "eval", "full", "new", "old", "final", "best", "last", "latest", "raw",
    "clean", "processed", "split", "shard", "part", "images", "image", "img", "labels", "files",
    "file", "input", "inputs", "output", "outputs", "tmp", "temp", "model", "models", "checkpoint",
    "checkpoints", "ckpt", "weights", "epoch", "step", "run", "exp", "csv", "json", "jsonl",
    "parquet", "tar", "zip", "npz", "npy", "txt", "bin", "version", "copy", "true", "false", "none",
)
)  # fmt: skip


class TermKind(IntegerChoices):
    SAME_DATA = 1, "the same data"
    DATA_WORD = 2, "data of a like name"
    SAME_ARCHITECTURE = 3, "the same architecture"
    MODEL_WORD = 4, "a like kind of model"
    PURPOSE_WORD = 5, "a like purpose"


WEIGHT = {
    TermKind.SAME_DATA: 6, TermKind.SAME_ARCHITECTURE: 4, TermKind.DATA_WORD: 3,
    TermKind.PURPOSE_WORD: 3, TermKind.MODEL_WORD: 2,
}  # fmt: skip
# One of these must be shared: an architecture alone is not enough.
_SUBJECT = frozenset({TermKind.SAME_DATA, TermKind.DATA_WORD, TermKind.PURPOSE_WORD})
Term = tuple[int, str]
MAX_REASONS = 2  # kinds of shared terms in the explanation


@dataclass(frozen=True)
class Similarity:
    """An artifact that shares terms. ``shared``: kinds of terms, the heaviest first; ``words``:
    those of the first two kinds.
    """

    artifact: int
    score: Fraction
    shared: tuple[TermKind, ...]
    words: tuple[str, ...]


def significant_words(text: str) -> list[str]:
    """Return the significant words of a name, in lower case and singular: 'cat-boxes_v2' → cat,
    box.
    """
    result = []
    for word in _WORD.findall(_CAMEL.sub(" ", text)):
        small = _singular(word.lower())
        if (
            len(small) >= 3
            and not small.isdecimal()
            and small not in _STOP_WORDS
            and word.lower() not in _STOP_WORDS
        ):
            result.append(small[:_MAX_TERM_LENGTH])
    return list(dict.fromkeys(result))


def _singular(word: str) -> str:
    for end, instead in (
        ("ies", "y"),
        ("xes", "x"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("sses", "ss"),
    ):
        if word.endswith(end) and len(word) > len(end) + 1:
            return word[: -len(end)] + instead
    return (
        word[:-1]
        if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3
        else word
    )


def data_term(data: str) -> str:
    """Return the term of data identified by content (part D of a fingerprint)."""
    return data[:_MAX_TERM_LENGTH]


def architecture_term(name: str, value_hash: str) -> str:
    """Return the term of a parameter value, identified by its hash."""
    return f"{name[:7]}:{value_hash}"[:_MAX_TERM_LENGTH]


def terms_of_work(
    *,
    data: str,
    data_names: Iterable[str],
    params: Mapping[str, str],
    values: Mapping[str, object],
    tags: Mapping[str, object],
) -> list[Term]:
    """Return the terms of a run, finished or planned.

    ``data``: part D by content, '' unknown. ``params``: name → hash. ``values``: disclosed
    parameter values. ``tags``: of the run.
    """
    terms: list[Term] = [(TermKind.SAME_DATA, data_term(data))] if data else []
    terms += [(TermKind.DATA_WORD, word) for name in data_names for word in significant_words(name)]
    terms += [
        (TermKind.SAME_ARCHITECTURE, architecture_term(name, params[name]))
        for name in ARCHITECTURE
        if name in params
    ]
    terms += _model_words(values, ARCHITECTURE) + _purpose_words(tags)
    return list(dict.fromkeys(terms))[:MAX_TERMS]


def terms_of_model(*, facts: Mapping[str, object], tags: Mapping[str, object]) -> list[Term]:
    """Return the terms of an artifact's own facts and tags."""
    return list(
        dict.fromkeys(
            _model_words({**tags, **facts}, KIND_OF_MODEL) + _purpose_words({**facts, **tags})
        )
    )[:MAX_TERMS]


def _model_words(values: Mapping[str, object], names: Sequence[str]) -> list[Term]:
    return [
        (TermKind.MODEL_WORD, word)
        for name in names
        for word in significant_words(str(values.get(name) or ""))
    ]


def _purpose_words(values: Mapping[str, object]) -> list[Term]:
    return [
        (TermKind.PURPOSE_WORD, word)
        for name in PURPOSE
        for word in significant_words(str(values.get(name) or ""))
    ]


def rank_similar(
    shared: Iterable[tuple[int, int, str]], common: Mapping[Term, int]
) -> list[Similarity]:
    """Return artifacts by shared terms, the highest score first.

    ``shared``: (artifact, kind, term) of each term in common. ``common``: number of models with a
    term. Artifacts that share neither data nor purpose are left out.
    """
    by_artifact: dict[int, list[Term]] = {}
    for artifact, kind, term in shared:
        by_artifact.setdefault(artifact, []).append((kind, term))
    similarities = []
    for artifact, terms in by_artifact.items():
        kinds = {TermKind(kind) for kind, _ in terms}
        if kinds & _SUBJECT:
            score = sum(
                (
                    Fraction(WEIGHT[TermKind(kind)], 1 + (common.get((kind, term), 1) // 20))
                    for kind, term in terms
                ),
                Fraction(),
            )
            ordered_kinds = tuple(sorted(kinds, key=lambda kind: -WEIGHT[kind]))
            reason_kinds = set(ordered_kinds[:MAX_REASONS]) - {
                TermKind.SAME_DATA,
                TermKind.SAME_ARCHITECTURE,
            }
            named = tuple(dict.fromkeys(term for kind, term in terms if kind in reason_kinds))
            similarities.append(Similarity(artifact, score, ordered_kinds, named))
    return sorted(similarities, key=lambda each: (-each.score, each.artifact))
