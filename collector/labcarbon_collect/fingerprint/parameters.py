"""Parts P, S and the places of data: a command's arguments and configuration files, sorted."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from labcarbon_collect.fingerprint import path_roles
from labcarbon_collect.fingerprint.arguments import Text, config_params, gathered, named
from labcarbon_collect.fingerprint.launchers import Launched
from labcarbon_collect.lc1 import Sorted, part_hash, sort_params
from labcarbon_collect.redaction import MASK, is_secret_name, is_secret_value, mask_argument

_MOST_PARAMS, _MOST_SEEDS, _LONGEST_NAME = 500, 100, 200
# Hydra's own settings say where and how it runs, not what.
_OWN = ("hydra.",)
_MULTIRUN = ("-m", "--multirun")
_USERINFO = re.compile(r"://[^/\s@]*@")


class TooMany(Exception):
    """More parameters than are told."""


@dataclass
class Words:
    """What the words of a command come to."""

    found: Sorted = field(default_factory=Sorted)
    told: Dict[str, Any] = field(default_factory=dict)
    aside: Dict[str, Any] = field(default_factory=dict)  # parameters that stand for a file
    dropped: List[str] = field(default_factory=list)
    data: List[path_roles.Place] = field(default_factory=list)
    start: List[path_roles.Place] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)


def sort_words(
    what: Launched, *, cwd: str, declared: Mapping[str, Any], data: Mapping[str, str], start: str, tell_all: bool
) -> Words:
    """Sort the arguments of ``what``.

    ``declared``: parameters said beside the command, which go before it; ``data``: role → path, ``start``: a path, said
    beside it; ``tell_all``: the values of the command line may be told as well. Raises OSError for a configuration file
    that cannot be read, OutOfBudget for one that is too large, TooMany.
    """
    words = Words()
    given: Dict[str, Any] = dict(what.settings)
    from_files: Dict[str, Any] = {}
    for name, value in gathered([pair for pair in named(what.arguments) if pair[0] not in _MULTIRUN]).items():
        kept = _kept(name, value, cwd, words, from_files)
        if kept is not None:
            given[name] = kept
    declared = {
        name: value
        for name, value in declared.items()
        if not (isinstance(value, str) and _placed(name, value, cwd, words, from_files))
    }
    for role, path in data.items():
        _declare(path_roles.DATA, role, path, cwd, words)
    if start:
        _declare(path_roles.START, "start", start, cwd, words)
    if what.world_size and what.world_size > 1:
        given.setdefault("world_size", what.world_size)
    said = {_bare(name) for name in (*given, *declared)}
    merged = {name: value for name, value in from_files.items() if _bare(name) not in said}
    words.found = _counting({**merged, **given, **declared}, words)
    may = declared if not tell_all else {**given, **declared}
    words.told = _tellable(may, words.found)
    return words


def _kept(
    name: str, value: Union[Text, List[Text]], cwd: str, words: Words, from_files: Dict[str, Any]
) -> Optional[Union[Text, List[Text]]]:
    """What of an argument remains a parameter."""
    texts = value if isinstance(value, list) else [value]
    left = [text for text in texts if isinstance(text, bool) or not _placed(name, text, cwd, words, from_files)]
    if not left:
        return None
    return left if len(left) > 1 else left[0]


def _placed(name: str, text: str, cwd: str, words: Words, from_files: Optional[Dict[str, Any]]) -> bool:
    """Whether a text is a path that has its place elsewhere than among the parameters."""
    if path_roles.is_output(name, text):
        words.dropped.append(_bare(name))
        return True
    place = path_roles.place_of(name, text, cwd)
    if place is None:
        return False
    if place.kind == path_roles.DATA:
        words.data.append(place)
    elif place.kind == path_roles.START:
        words.start.append(place)
    elif place.kind == path_roles.CONFIG and from_files is not None:
        for inner, value in config_params(place.path, place.role).items():
            if not (isinstance(value, str) and _placed(inner, value, cwd, words, None)):
                from_files[inner] = value
    elif place.kind == path_roles.CONFIG:
        inner_params = config_params(place.path, place.role)  # named by a configuration file itself
        words.aside[f"config:{place.role}"] = part_hash(inner_params)
    else:
        words.dropped.append(place.role)
    return True


def _declare(kind: str, role: str, path: str, cwd: str, words: Words) -> None:
    place = path_roles.place_of(f"{role}_path", path, cwd)
    if place is None:
        words.notes.append(f"{kind}: there is nothing at the path given for {role}")
        return
    into = words.data if kind == path_roles.DATA else words.start
    into.append(path_roles.Place(kind, role, place.path, place.folder))


def _counting(given: Mapping[str, Any], words: Words) -> Sorted:
    """Parameters that count: without secrets, and without what only says how Hydra runs.

    A secret that was told by name may be a word of a dictionary, and would be found from its hash.
    """
    plain: Dict[str, Any] = dict(words.aside)
    for name, value in given.items():
        bare = name.lstrip("-+")
        if bare.startswith(_OWN) or value == MASK or is_secret_name(bare):
            words.dropped.append(bare)
        else:
            plain[_short(bare)] = _USERINFO.sub("://", value) if isinstance(value, str) else value
    found = sort_params(plain)
    if len(found.params) > _MOST_PARAMS or len(found.seeds) > _MOST_SEEDS:
        raise TooMany(f"there are more than {_MOST_PARAMS} of them")
    found.dropped.update({_short(name): "" for name in words.dropped})
    return found


def _tellable(given: Mapping[str, Any], found: Sorted) -> Dict[str, Any]:
    named_so = sort_params({_short(name.lstrip("-+")): value for name, value in given.items()})
    told = {**named_so.params, **named_so.seeds}
    return {
        name: value
        for name, value in told.items()
        if (name in found.params or name in found.seeds) and not (isinstance(value, str) and is_secret_value(value))
    }


def _bare(name: str) -> str:
    return name.lstrip("-+").replace("-", "_")


def _short(name: str) -> str:
    """A name that may be told: long ones end in the hash of the whole."""
    plain = mask_argument(name.encode("utf-8", "replace").decode())
    if len(plain) <= _LONGEST_NAME:
        return plain
    return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def roles(found: List[path_roles.Place]) -> List[Tuple[str, str]]:
    """``(role, path)`` of places, each once."""
    return list(dict.fromkeys((place.role, place.path) for place in found))
