"""The arguments of a program as names and values, without knowing its parser. Pure."""

from __future__ import annotations

import re
from typing import Dict, List, Sequence, Tuple, Union

Text = Union[str, bool]
_NUMBER = re.compile(r"^-(\d|\.\d)")
_OVERRIDE = re.compile(r"^(\+{0,2})([A-Za-z_][\w./@-]*)=(.*)$", re.DOTALL)  # Hydra: a.b=c, +a=c, ++a=c
_JOINED = re.compile(r"^-([A-Za-z])(\d.*)$")  # -j8
_MOST = 2000


def named(words: Sequence[str]) -> List[Tuple[str, Text]]:
    """``(name, text)`` of each argument; a flag is True, a word without a name is ``arg0``, ``arg1`` …

    An option takes the next word unless that begins an option (a negative number does not). Words that follow are
    positional: no parser is known, so one option takes one word.
    """
    found: List[Tuple[str, Text]] = []
    at, position, only_words = 0, 0, False
    while at < len(words) and len(found) < _MOST:
        word = words[at]
        at += 1
        override = _OVERRIDE.match(word)
        if word == "--" and not only_words:
            only_words = True
        elif not only_words and _is_option(word):
            name, equals, text = word.partition("=")
            joined = _JOINED.match(word)
            if equals:
                found.append((name, text))
            elif joined:
                found.append((joined.group(1), joined.group(2)))
            elif at < len(words) and not _begins(words[at]):
                found.append((name, words[at]))
                at += 1
            else:
                found.append((name, True))
        elif override:
            found.append((override.group(2), override.group(3)))
        else:
            found.append((f"arg{position}", word))
            position += 1
    return found


def gathered(pairs: Sequence[Tuple[str, Text]]) -> Dict[str, Union[Text, List[Text]]]:
    """Pairs as one mapping; what was given several times is a list, in the order given."""
    found: Dict[str, List[Text]] = {}
    for name, text in pairs:
        found.setdefault(name, []).append(text)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in found.items()}


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)


def _begins(word: str) -> bool:
    """Whether a word cannot be the value of the option before it."""
    return _is_option(word) or word == "--"
