"""Names that are words: those that identify nobody, and those that are ordinary words too. Pure.

Texts keep the first when a person is erased: `admin` in a text is almost never a person. The second
(`will`, `adam`) are replaced where a text is a name by its position, and in prose on request.
"""

import re
from functools import cache

from django.contrib.auth.password_validation import CommonPasswordValidator

COMMON_WORDS = frozenset(
    [
        "admin",
        "administrator",
        "root",
        "user",
        "users",
        "guest",
        "test",
        "tester",
        "demo",
        "nobody",
        "system",
        "daemon",
        "service",
        "server",
        "ubuntu",
        "debian",
        "labcarbon",
        "viewer",
        "member",
        "pi",
        "person",
        "people",
        "owner",
        "unknown",
        "none",
        "null",
        "true",
        "false",
        "default",
        "other",
        "idle",
        "overhead",
        "run",
        "runs",
        "train",
        "eval",
        "test",
        "infer",
        "data",
        "lab",
        "project",
        "node",
        "site",
        "gpu",
        "cpu",
        "job",
        "token",
        "tokens",
        "password",
        "energy",
        "carbon",
        "model",
        "models",
        "name",
        "all",
        "shared",
    ]
)


def is_common(name: str) -> bool:
    """Return whether a name identifies nobody: a common word, a number, or one character."""
    text = name.strip().casefold()
    return len(text) < 2 or text.isdigit() or text in COMMON_WORDS


# Ordinary words and terms of the field that Django's list does not contain.
_WORDS = frozenset(
    """
    able also april august autumn base bean bell bert best bill bird black blue bond book both
    brook brown burn bush call case chase clay cliff code cole cook copy cross curie dale dawn
    days dean drew early earl even fast field fine first fisher ford forest fourier from full
    gauss gene glen good grant gray grid hall half hand hard have head heath high hill home
    hour house into iris jean just kernel keys kind king knight lance lane laplace large last
    late lily line link list llama long look loss main major make mason mean miles mill minor
    more most much must near need next norm note olive only open over page park part pearl
    pierce plan plot point poll pool poor port post price prior rank rate rare read reed rest
    rice rich ridge ring rise river robin rock root rule sage sand save scale seed self ship
    shore short size small snow some stamp step stone such task term text than that them then
    they this time tree turing turn type used vale very volta wade walk wall ward well were west
    what when wild wise with wood woods work year young
    """.split()  # noqa: SIM905 - a list of words is read as text
)
_MIN_LENGTH = 4


def is_ordinary(name: str) -> bool:
    """Return whether a name can also be a word of a text: a single word that is short or common,
    or several such words. Names with other characters than letters identify their person.
    """
    if is_common(name):
        return True
    words = re.findall(r"[^\W\d_]+", name)
    if re.sub(r"\s", "", name) != "".join(words):
        return len(name) < _MIN_LENGTH
    return all(len(word) < _MIN_LENGTH or word.casefold() in _ordinary_words() for word in words)


@cache
def _ordinary_words() -> frozenset[str]:
    """Return the lists above and Django's 20 000 common passwords, among them many words and most
    first names.
    """
    return _WORDS | COMMON_WORDS | frozenset(CommonPasswordValidator().passwords)
