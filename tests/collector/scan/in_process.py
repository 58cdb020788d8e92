"""A scan without a server."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from labcarbon_collect.progress import Progress
from labcarbon_collect.scan.hashed_files import ScanState
from labcarbon_collect.scan.local_files import LocalTree
from labcarbon_collect.scan.scanner import Scan, ScanOptions


def scan_folder(root: Path, home: Path) -> ScanState:
    """Scan a folder; return the open database."""
    home.mkdir(exist_ok=True)
    state, path = ScanState(home), str(root).encode()
    switch_s, collect_every = sys.getswitchinterval(), gc.get_threshold()
    try:
        Scan(state, ScanOptions(threads=1), None, Progress("files")).run(
            [(LocalTree([path]), path)]
        )
    finally:
        sys.setswitchinterval(switch_s)
        gc.set_threshold(*collect_every)
    return state
