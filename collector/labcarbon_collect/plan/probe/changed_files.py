"""Files of a folder that changed between two surveys, by size and modification time."""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Tuple

MAX_FILES = 20_000
_SKIPPED = frozenset(("__pycache__", ".git"))


class FileSurvey(NamedTuple):
    """Size and modification time by path, relative to the folder."""

    files: Dict[str, Tuple[int, int]]
    is_complete: bool  # no more than the limit


def survey_folder(folder: str, *, max_files: int = MAX_FILES) -> FileSurvey:
    """Return the files below a folder. Links are not followed, Git's and Python's own folders are
    left out.
    """
    files: Dict[str, Tuple[int, int]] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            if len(files) >= max_files:
                return FileSurvey(files, False)
            path = os.path.join(parent, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            files[os.path.relpath(path, folder)] = (status.st_size, status.st_mtime_ns)
    return FileSurvey(files, True)


def changed_files(before: FileSurvey, after: FileSurvey) -> List[str]:
    """Return the paths that were added, changed or deleted. Beyond the limit of a survey, only
    changes of files that both contain.
    """
    is_complete = before.is_complete and after.is_complete
    common = before.files.keys() & after.files.keys()
    changed = {path for path in common if before.files[path] != after.files[path]}
    if is_complete:
        changed |= before.files.keys() ^ after.files.keys()
    return sorted(changed)
