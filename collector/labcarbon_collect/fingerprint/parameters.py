"""Parts P, S and the paths of data: a command's arguments and configuration files, classified."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from labcarbon_collect.fingerprint import path_roles
from labcarbon_collect.fingerprint.arguments import (
    Text,
    config_params,
    group_arguments,
    is_multirun,
    name_arguments,
)
from labcarbon_collect.fingerprint.launchers import Launch
from labcarbon_collect.lc1 import SortedParams, part_hash, sort_params
from labcarbon_collect.redaction import MASK, is_secret_name, is_secret_value, mask_argument

_MAX_PARAMS, _MAX_SEEDS, _MAX_NAME_LENGTH = 500, 100, 200
# Hydra's own settings control where and how it runs.
_HYDRA_PREFIXES = ("hydra.",)
_MULTIRUN = ("-m", "--multirun")
_USERINFO = re.compile(r"://[^/\s@]*@")


class TooManyParams(Exception):
    """More parameters than can be sent."""


@dataclass
class CommandParams:
    """The classified arguments of a command."""

    sorted_params: SortedParams = field(default_factory=SortedParams)
    values: Dict[str, Any] = field(default_factory=dict)
    file_hashes: Dict[str, Any] = field(
        default_factory=dict
    )  # hashes of nested configuration files, by parameter
    dropped: List[str] = field(default_factory=list)
    data: List[path_roles.InputPath] = field(default_factory=list)
    start: List[path_roles.InputPath] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)


def sort_command_params(
    launch: Launch,
    *,
    cwd: str,
    declared: Mapping[str, Any],
    data: Mapping[str, str],
    start: str,
    full_command: bool,
) -> CommandParams:
    """Classify the arguments of a launch.

    Not named by the command line: ``declared`` (parameters, which take precedence), ``data`` (role
    → path) and ``start`` (a path). ``full_command``: values of the command line may be sent as
    well. Raises OSError for an unreadable configuration file, BudgetExceeded for a too large one,
    TooManyParams.
    """
    params = CommandParams()
    ignored_options = _MULTIRUN if is_multirun(launch.arguments) else ()
    arguments: Dict[str, Any] = dict(launch.settings)
    from_files: Dict[str, Any] = {}
    for name, value in group_arguments(
        [pair for pair in name_arguments(launch.arguments) if pair[0] not in ignored_options]
    ).items():
        remaining = _extract_files(name, value, cwd, params, from_files)
        if remaining is not None:
            arguments[name] = remaining
    declared = {
        name: value
        for name, value in declared.items()
        if not (isinstance(value, str) and _add_if_path(name, value, cwd, params, from_files))
    }
    for role, path in data.items():
        _add_declared(path_roles.DATA, role, path, cwd, params)
    if start:
        _add_declared(path_roles.START, "start", start, cwd, params)
    if launch.world_size and launch.world_size > 1:
        arguments.setdefault("world_size", launch.world_size)
    named = {_plain_name(name) for name in (*arguments, *declared)}
    merged = {name: value for name, value in from_files.items() if _plain_name(name) not in named}
    params.sorted_params = _counted_params({**merged, **arguments, **declared}, params)
    published = declared if not full_command else {**arguments, **declared}
    params.values = _plain_values(published, params.sorted_params)
    return params


def _extract_files(
    name: str,
    value: Union[Text, List[Text]],
    cwd: str,
    params: CommandParams,
    from_files: Dict[str, Any],
) -> Optional[Union[Text, List[Text]]]:
    """Return the rest of an argument that is a parameter."""
    texts = value if isinstance(value, list) else [value]
    remaining = [
        text
        for text in texts
        if isinstance(text, bool) or not _add_if_path(name, text, cwd, params, from_files)
    ]
    if not remaining:
        return None
    return remaining if len(remaining) > 1 else remaining[0]


def _add_if_path(
    name: str, text: str, cwd: str, params: CommandParams, from_files: Optional[Dict[str, Any]]
) -> bool:
    """Return whether a text is a path. It is then added to its part."""
    if path_roles.is_output(name, text):
        params.dropped.append(_plain_name(name))
        return True
    place = path_roles.classify_path(name, text, cwd)
    if place is None:
        return False
    if place.kind == path_roles.DATA:
        params.data.append(place)
    elif place.kind == path_roles.START:
        params.start.append(place)
    elif place.kind == path_roles.CONFIG and from_files is not None:
        for inner, value in config_params(place.path, place.role).items():
            if not (isinstance(value, str) and _add_if_path(inner, value, cwd, params, None)):
                from_files[inner] = value
    elif place.kind == path_roles.CONFIG:
        inner_params = config_params(place.path, place.role)  # named by another configuration file
        params.file_hashes[f"config:{place.role}"] = part_hash(inner_params)
    else:
        params.dropped.append(place.role)
    return True


def _add_declared(kind: str, role: str, path: str, cwd: str, params: CommandParams) -> None:
    place = path_roles.classify_path(f"{role}_path", path, cwd)
    if place is None:
        params.notes.append(f"{kind}: the path for {role} does not exist")
        return
    places = params.data if kind == path_roles.DATA else params.start
    places.append(path_roles.InputPath(kind, role, place.path, place.is_folder))


def _counted_params(params_by_name: Mapping[str, Any], params: CommandParams) -> SortedParams:
    """Return the parameters that count: without secrets and Hydra's own settings.

    A secret parameter may have a dictionary word as its value, which its hash would reveal.
    """
    counted: Dict[str, Any] = dict(params.file_hashes)
    for name, value in params_by_name.items():
        plain_name = name.lstrip("-+")
        if plain_name.startswith(_HYDRA_PREFIXES) or value == MASK or is_secret_name(plain_name):
            params.dropped.append(plain_name)
        else:
            counted[_short_name(plain_name)] = (
                _USERINFO.sub("://", value) if isinstance(value, str) else value
            )
    sorted_params = sort_params(counted)
    if len(sorted_params.params) > _MAX_PARAMS or len(sorted_params.seeds) > _MAX_SEEDS:
        raise TooManyParams(f"there are more than {_MAX_PARAMS} parameters")
    sorted_params.dropped.update({_short_name(name): "" for name in params.dropped})
    return sorted_params


def _plain_values(params_by_name: Mapping[str, Any], sorted_params: SortedParams) -> Dict[str, Any]:
    all_params = sort_params(
        {_short_name(name.lstrip("-+")): value for name, value in params_by_name.items()}
    )
    values = {**all_params.params, **all_params.seeds}
    return {
        name: value
        for name, value in values.items()
        if (name in sorted_params.params or name in sorted_params.seeds)
        and not (isinstance(value, str) and is_secret_value(value))
    }


def _plain_name(name: str) -> str:
    return name.lstrip("-+").replace("-", "_")


def _short_name(name: str) -> str:
    """Return a name of limited length. Long names end in the hash of the full name."""
    plain = mask_argument(name.encode("utf-8", "replace").decode())
    if len(plain) <= _MAX_NAME_LENGTH:
        return plain
    return (
        f"{plain[:_MAX_NAME_LENGTH]}-"
        f"{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    )


def unique_roles(paths: List[path_roles.InputPath]) -> List[Tuple[str, str]]:
    """Return ``(role, path)`` of each path, without repetitions."""
    return list(dict.fromkeys((place.role, place.path) for place in paths))
