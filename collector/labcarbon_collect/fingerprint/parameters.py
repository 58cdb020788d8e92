"""Parts P, S and the paths of data: a command's arguments and configuration files, classified."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from labcarbon_collect.files.read_limits import Budget, read_regular_file
from labcarbon_collect.fingerprint import path_roles
from labcarbon_collect.fingerprint.arguments import (
    Text,
    config_params,
    group_arguments,
    is_multirun,
    name_arguments,
)
from labcarbon_collect.fingerprint.code_facts import CodeFacts
from labcarbon_collect.fingerprint.environment import find_interpreter
from labcarbon_collect.fingerprint.hidden_inputs import (
    Given,
    KnownFiles,
    read_opaque,
    shown,
    texts_of,
    unexamined_inputs,
    variables_in,
)
from labcarbon_collect.fingerprint.hydra import ComposeTimeout, compose
from labcarbon_collect.fingerprint.launchers import Launch
from labcarbon_collect.fingerprint.variables import (
    PREFIX,
    Variables,
    is_of_the_place,
    parse_env_file,
    select_variables,
)
from labcarbon_collect.lc1 import SortedParams, flatten, is_number, part_hash, sort_params
from labcarbon_collect.redaction import MASK, is_secret_name, is_secret_value, mask_argument

_MAX_ENV_FILE_BYTES, _MAX_OPAQUE_FILES = 1024 * 1024, 50
# Variables of schedulers with the number of processes.
_TASK_COUNTS = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_MAX_PARAMS, _MAX_SEEDS, _MAX_NAME_LENGTH = 500, 100, 200
# Hydra's own settings control where and how it runs.
_HYDRA_PREFIXES = ("hydra.",)
_MULTIRUN = ("-m", "--multirun")
_USERINFO = re.compile(r"://[^/\s@]*@")


class TooManyParams(Exception):
    """More parameters than can be sent."""


@dataclass
class Surroundings:
    """What is known of a program beside its command. ``config_files``: those that its code names;
    ``code_files``: all of its files. ``tracked``: names of files below ``root`` that git tracks.

    ``budget``: the time for composing Hydra's configuration. ``script``: the path of the script.
    """

    cwd: str
    environ: Mapping[str, str] = field(default_factory=dict)
    facts: CodeFacts = field(default_factory=CodeFacts)
    config_files: Sequence[str] = ()
    code_files: Sequence[str] = ()
    script: str = ""
    root: str = ""
    tracked: Collection[bytes] = frozenset()
    budget: Budget = field(default_factory=lambda: Budget(0))


@dataclass
class CommandParams:
    """The classified arguments of a command.

    ``values``: those that may be sent. ``local_values``: of parameters, seeds and labels, only for
    the terminal. ``dropped``, ``labels``: names with values, those of secrets None.
    ``parsed_files``: paths of configuration files whose values are parameters. ``not_compared``:
    what may change the result and is not examined; ``find_unexamined`` returns more, from the file
    system, which may hang. ``is_late``: Hydra's configuration needs more time than there was.
    """

    sorted_params: SortedParams = field(default_factory=SortedParams)
    values: Dict[str, Any] = field(default_factory=dict)
    local_values: Dict[str, Any] = field(default_factory=dict)
    file_hashes: Dict[str, Any] = field(
        default_factory=dict
    )  # hashes of nested configuration files, by parameter
    dropped: Dict[str, Any] = field(default_factory=dict)
    labels: Dict[str, Any] = field(default_factory=dict)
    data: List[path_roles.InputPath] = field(default_factory=list)
    start: List[path_roles.InputPath] = field(default_factory=list)
    parsed_files: Set[str] = field(default_factory=set)
    not_compared: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    is_late: bool = False
    find_unexamined: Callable[[], List[str]] = list


def sort_command_params(
    launch: Launch,
    surroundings: Surroundings,
    *,
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
    return _Classification(launch, surroundings).classify(declared, data, start, full_command)


class _Classification:
    """``given``: parameters of the command line. ``from_files``: of configuration files.

    A later source replaces an earlier one: defaults of the code, configuration files, variables,
    the command line, declared parameters.
    """

    def __init__(self, launch: Launch, surroundings: Surroundings) -> None:
        self._launch, self._place = launch, surroundings
        self._facts, self._cwd = surroundings.facts, surroundings.cwd
        self._params = CommandParams()
        self._given: Dict[str, Any] = dict(launch.settings)
        self._given_outputs: Dict[str, Any] = {}  # labels
        self._from_files: Dict[str, Any] = {}
        self._file_values: Dict[str, Set[str]] = {}  # names in the files of the command line
        self._configs: Dict[str, str] = {}  # path → role of each configuration file
        self._variables = self._read_variables()

    def classify(
        self, declared: Mapping[str, Any], data: Mapping[str, str], start: str, full_command: bool
    ) -> CommandParams:
        params = self._params
        if not self._add_hydra():
            self._add_arguments()
        variables = {
            name: text
            for name, text in self._variables.values.items()
            if not self._add_if_path(name, text, nested=False)
        }
        declared = {
            name: value
            for name, value in declared.items()
            if not (isinstance(value, str) and self._add_if_path(name, value))
        }
        for role, path in data.items():
            self._add_declared(path_roles.DATA, role, path)
        if start:
            self._add_declared(path_roles.START, "start", start)
        self._add_default_files({_plain_name(name) for name in (*self._given, *declared)})
        world_size = self._world_size()
        if world_size and world_size > 1:
            self._given.setdefault("world_size", world_size)
        named = {_plain_name(name) for name in (*self._given, *declared)}
        merged = {
            name: value
            for name, value in self._from_files.items()
            if _plain_name(name) not in named
        }
        self._add_file_order()
        counted = {**merged, **variables, **self._given, **declared}
        params.sorted_params = self._count({**self._interpolated(counted), **counted})
        of_command = {**self._given, **self._given_outputs} if full_command else {}
        params.values = _plain_values({**of_command, **declared}, params.sorted_params)
        params.local_values = _local_values(params)
        given, known = self._given_files(counted), self._known_files()
        params.find_unexamined = lambda: [
            *self._read_paths(known),
            *unexamined_inputs(self._facts.inputs, given, known),
        ]
        if self._facts.reads_unknown_variables:
            params.not_compared.append("environment variables with a computed name")
        if self._facts.is_incomplete:
            params.not_compared.append("settings that a long or invalid file reads")
        if self._facts.unknown_programs:
            params.not_compared.append("programs that the code starts")
        return params

    def _interpolated(self, values: Mapping[str, Any]) -> Dict[str, str]:
        """Return the variables that values and configuration files name, such as ``${oc.env:LR}``,
        as parameters.
        """
        texts = [text for name, value in values.items() for _, text in texts_of(name, value)]
        files = [path for path in self._configs if path not in self._params.parsed_files]
        files += [path for path in self._place.code_files if path.endswith((".yaml", ".yml"))]
        texts += [read_opaque(path) for path in files[:_MAX_OPAQUE_FILES]]
        return {
            f"{PREFIX}{name}": text
            for name, text in variables_in(texts, self._environ).items()
            if not is_of_the_place(name)
        }

    def _add_file_order(self) -> None:
        """Add a label for several files of one argument that are not in the order of their names:
        the order may matter, and so may a repetition.
        """
        names: Dict[str, List[str]] = {}
        for place in self._params.data:
            names.setdefault(place.role, []).append(os.path.basename(place.path))
        for role, given in names.items():
            if given != sorted(set(given)):
                self._params.labels[f"order_of_{_plain_name(role)}"] = given

    def _given_files(self, values: Mapping[str, Any]) -> Given:
        place = self._place
        script_folder = os.path.dirname(place.script) or place.cwd
        folders = [place.cwd, script_folder, *map(os.path.dirname, self._configs)]
        texts = [
            pair
            for name, value in values.items()
            if isinstance(value, (str, list, dict, tuple)) and sort_params({name: value}).params
            for pair in texts_of(name, value)
            if not is_number(pair[1])
        ]
        inputs = (*self._params.data, *self._params.start)
        files = [(one.role, one.path) for one in inputs]
        files += [
            (role, path)
            for path, role in self._configs.items()
            if os.path.realpath(path) not in self._params.parsed_files
        ]
        return Given(list(dict.fromkeys(folders)), texts, files)

    def _known_files(self) -> KnownFiles:
        place = self._place
        known = KnownFiles(root=place.root, tracked=place.tracked)
        known.add([one.path for one in (*self._params.data, *self._params.start)])
        known.add([*place.code_files, *self._configs, *self._params.parsed_files])
        return known

    def _read_variables(self) -> Variables:
        place = self._place
        inherited = {} if self._launch.is_isolated else dict(place.environ)
        for name in self._launch.removed:
            inherited.pop(name, None)
        environ = {**inherited, **self._launch.given, **self._launch.launcher_variables}
        for path in self._env_files():
            content = read_regular_file(path, _MAX_ENV_FILE_BYTES)
            values = parse_env_file(content.decode("utf-8", "replace"))
            environ = {**environ, **values} if self._facts.env_file_wins else {**values, **environ}
            self._params.parsed_files.add(path)
        self._environ = environ
        return select_variables(self._facts, environ, self._launch.given)

    def _env_files(self) -> Iterator[str]:
        """Return the files of variables that the code names. ``.env`` is searched upwards too."""
        script_folder = os.path.dirname(self._place.script)
        for name in dict.fromkeys(self._facts.env_files):
            folders = [self._place.cwd, script_folder]
            if name == ".env" and script_folder:
                folders += list(map(str, PurePath(os.path.realpath(script_folder)).parents))
            paths = (os.path.join(folder, name) for folder in folders)
            path = next((path for path in paths if os.path.isfile(path)), None)
            if path is not None:
                yield path

    def _world_size(self) -> Optional[int]:
        """Return the number of processes: of the launcher, else of the scheduler, if the code
        reads it.
        """
        if self._launch.world_size is not None:
            return self._launch.world_size
        counts = (
            self._environ.get(name, "") for name in _TASK_COUNTS if name in self._facts.variables
        )
        return next((int(count) for count in counts if count.isdigit() and len(count) < 7), None)

    def _add_hydra(self) -> bool:
        """Add the configuration that Hydra composes. Return whether it is known."""
        call, launch = self._facts.hydra, self._launch
        if call is None or launch.family != "python" or not self._place.script:
            return False
        interpreter = find_interpreter(launch.interpreter or "python3", self._cwd, self._environ)
        if interpreter is None:
            return False
        try:
            composed = compose(
                call,
                launch.arguments,
                script=self._place.script,
                interpreter=os.fspath(interpreter),
                cwd=self._cwd,
                environ=self._environ,
                budget=self._place.budget,
            )
        except ComposeTimeout:
            self._params.is_late = True
            self._params.not_compared.append("Hydra's configuration")
            self._params.notes.append(
                "Hydra's configuration was not composed in time: the overrides are compared"
            )
            return False
        if composed is None:
            return False
        for name, value in flatten(composed.values).items():
            if not (isinstance(value, str) and self._add_if_path(name, value, nested=False)):
                self._from_files[name] = value
        for name, values in composed.swept.items():
            self._given[name] = sorted(values)
        folder = composed.folder + os.sep
        self._params.parsed_files |= {
            path for path in self._place.code_files if path.startswith(folder)
        }
        return True

    def _add_arguments(self) -> None:
        is_sweep = is_multirun(self._launch.arguments)
        pairs = name_arguments(self._launch.arguments, self._facts.options)
        if self._facts.hydra is not None:
            pairs = [(self._name_group(name, text), text) for name, text in pairs]
        pairs = [pair for pair in pairs if not (is_sweep and pair[0] in _MULTIRUN)]
        for name, value in group_arguments(pairs).items():
            texts = value if isinstance(value, list) else [value]
            remaining = [
                text
                for text in texts
                if not (isinstance(text, str) and self._add_if_path(name, text))
            ]
            if remaining:
                self._given[name] = remaining if len(remaining) > 1 else remaining[0]
            elif _plain_name(name) in self._params.labels:
                self._given_outputs[name] = self._params.labels[_plain_name(name)]
        self._add_order(pairs)

    def _add_order(self, pairs: Sequence[Tuple[str, Text]]) -> None:
        """Add a label for options before a configuration file that sets them too: some programs
        let the last one win.
        """
        names = [_plain_name(name) for name, _ in pairs]
        for place, (_, text) in enumerate(pairs):
            values = self._file_values.get(text, ()) if isinstance(text, str) else ()
            earlier = sorted({name for name in names[:place] if name in values})
            if earlier:
                self._params.labels["options_before_file"] = earlier

    def _name_group(self, name: str, text: Text) -> str:
        """Return the name of an override. One that selects a file of Hydra is no label."""
        folder = os.path.dirname(self._place.script)
        call = self._facts.hydra
        path = os.path.join(folder, (call.folder if call else None) or "", name, f"{text}.yaml")
        return f"defaults.{name}" if os.path.isfile(path) else name

    def _add_if_path(self, name: str, text: str, *, nested: bool = True) -> bool:
        """Return whether a text is a path. It is then added to its part. ``nested``: values of a
        configuration file are parameters; those of one that another file names are hashed.
        """
        params = self._params
        if path_roles.is_output(name, text):
            self._add_output(name, text)
            return True
        place = path_roles.classify_path(name, text, self._cwd)
        if place is None:
            return False
        if place.kind == path_roles.DATA:
            params.data.append(place)
        elif place.kind == path_roles.START:
            params.start.append(place)
        elif place.kind == path_roles.CONFIG and nested:
            self._file_values[text] = self._add_config_file(place.path, place.role)
        elif place.kind == path_roles.CONFIG:
            self._configs[place.path] = place.role
            params.file_hashes[f"config:{place.role}"] = part_hash(
                config_params(place.path, place.role)
            )
        else:
            self._add_output(name, text)
        return True

    def _add_config_file(self, path: str, role: str, prefix: str = "") -> Set[str]:
        """Add the values of a configuration file, those of paths to their parts. Return their
        names.
        """
        self._configs[path] = role
        values = config_params(path, role)
        if not any(name.startswith("config:") for name in values):
            self._params.parsed_files.add(os.path.realpath(path))
        for name, value in values.items():
            if not (isinstance(value, str) and self._add_if_path(name, value, nested=False)):
                self._from_files[f"{prefix}{name}"] = value
        return {_plain_name(name) for name in values}

    def _add_output(self, name: str, text: str) -> None:
        """Add an output path. One from which the code reads may be an input as well."""
        path = os.path.join(self._cwd, text)
        text = _USERINFO.sub("://", text)
        if path_roles.last_part(name) not in self._facts.read:
            # A bare word is a folder, or what the output is: softmax.
            is_word = path_roles.is_bare_output(name, text)
            (self._params.labels if is_word else self._params.dropped)[_plain_name(name)] = text
            return
        self._params.labels[_plain_name(name)] = text
        if _has_content(path):
            self._params.not_compared.append(
                f"the content of {mask_argument(_plain_name(name))[:60]}"
            )

    def _add_declared(self, kind: str, role: str, path: str) -> None:
        place = path_roles.classify_path(f"{role}_path", path, self._cwd)
        if place is None:
            self._params.notes.append(f"{kind}: the path for {role} does not exist")
            return
        places = self._params.data if kind == path_roles.DATA else self._params.start
        places.append(path_roles.InputPath(kind, role, place.path, place.is_folder))

    def _add_default_files(self, named: Set[str]) -> None:
        """Add paths that are defaults of the code, and configuration files that it names."""
        used = {place.role for place in (*self._params.data, *self._params.start)}
        for name, value in self._defaults().items():
            is_named = (
                _plain_name(name) in named
                or name in used
                or name in self._variables.values
                or any(_plain_name(role) == _plain_name(name) for role in used)
            )
            if (
                isinstance(value, str)
                and value
                and not is_named
                and name not in self._params.dropped
                and name not in self._params.labels
            ):
                self._add_if_path(name, value)
        if self._params.parsed_files - set(self._env_files()):
            return
        paths = [path for path in dict.fromkeys(self._place.config_files) if os.path.isfile(path)]
        for path in paths if self._facts.hydra is None else ():
            stem = os.path.splitext(os.path.basename(path))[0]
            self._add_config_file(path, stem, f"{stem}." if len(paths) > 1 else "")

    def _read_paths(self, known: KnownFiles) -> Iterator[str]:
        """Yield existing files and filled folders that the code reads by a constant path, and that
        are no known input: a cache, a table beside the data.
        """
        folders = dict.fromkeys((self._cwd, os.path.dirname(self._place.script) or self._cwd))
        for text in sorted(self._facts.read_texts):
            for folder in folders:
                path = os.path.realpath(os.path.join(folder, os.path.expanduser(text)))
                is_above = any(one.startswith(path + os.sep) for one in known.paths)
                if not is_above and _has_content(path) and not known.covers(path):
                    yield f"the content of {shown(text)}"
                    break

    def _defaults(self) -> Dict[str, Any]:
        """Return the values that the code uses for missing parameters."""
        return {**self._facts.defaults, **self._facts.cell, **self._variables.defaults}

    def _count(self, params_by_name: Mapping[str, Any]) -> SortedParams:
        """Return the parameters that count: without secrets and Hydra's own settings.

        A secret parameter may have a dictionary word as its value, which its hash would reveal.
        """
        params = self._params
        counted: Dict[str, Any] = dict(params.file_hashes)
        for name, value in params_by_name.items():
            plain_name = name.lstrip("-+")
            if (
                plain_name.startswith(_HYDRA_PREFIXES)
                or value == MASK
                or is_secret_name(plain_name)
            ):
                params.dropped[plain_name] = None
            else:
                counted[_short_name(plain_name)] = (
                    _USERINFO.sub("://", value) if isinstance(value, str) else value
                )
        sorted_params = sort_params(
            counted,
            rank=self._environ.get("RANK", self._environ.get("SLURM_PROCID")),
            defaults=self._defaults(),
            used=self._facts.computed,
            labels=self._variables.labels,
        )
        if self._facts.inputs.zero_is_no_seed:
            for name in [name for name, seed in sorted_params.seeds.items() if seed == 0]:
                del sorted_params.seeds[name]
        if len(sorted_params.params) > _MAX_PARAMS or len(sorted_params.seeds) > _MAX_SEEDS:
            raise TooManyParams(f"there are more than {_MAX_PARAMS} parameters")
        sorted_params.dropped.update(
            {_short_name(name): value for name, value in params.dropped.items()}
        )
        sorted_params.labels.update(
            {_short_name(name): value for name, value in params.labels.items()}
        )
        return sorted_params


def _has_content(path: str) -> bool:
    """Return whether a path is a file, or a folder that is not empty."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except NotADirectoryError:
        return os.path.isfile(path)
    except (OSError, ValueError):
        return False


def _plain_values(params_by_name: Mapping[str, Any], sorted_params: SortedParams) -> Dict[str, Any]:
    all_params = sort_params(
        {_short_name(name.lstrip("-+")): value for name, value in params_by_name.items()},
        labels=sorted_params.labels,
    )
    values = {**all_params.params, **all_params.seeds, **all_params.labels}
    known = {**sorted_params.params, **sorted_params.seeds, **sorted_params.labels}
    return {
        name: value
        for name, value in values.items()
        if name in known and not (isinstance(value, str) and is_secret_value(value))
    }


def _local_values(params: CommandParams) -> Dict[str, Any]:
    """Return the values of parameters, seeds and labels, without secrets and hashes."""
    sorted_params = params.sorted_params
    values = {**sorted_params.params, **sorted_params.seeds, **sorted_params.labels}
    return {
        name: value
        for name, value in values.items()
        if value is not None
        and name not in params.file_hashes
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
