"""Starts the process that reads a model file, and ends it at its limits."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import BoundedSemaphore
from typing import IO

import msgspec

from apps.core.errors import InvalidInput, LabCarbonError
from apps.planner.model_files.limits import MAX_CPU_S, MAX_MEMORY_BYTES, MEMORY_STATUS
from apps.planner.model_files.onnx_costs import OnnxCosts, ReaderResponse
from apps.planner.model_files.operators import Shape

MAX_WALL_S = 30.0
MAX_RESPONSE_BYTES = 8 << 20
_WAIT_S = 10.0  # for the file of another request
_READ_BYTES = 64 << 10
_RUNNING = BoundedSemaphore(1)  # files that this web process has read at a time
_ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop()); "
    "from apps.planner.model_files.child import main; main()"
)
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_PLAN_A_PART = "Plan a smaller part of the model, or enter its layers."


class ReaderBusy(LabCarbonError):
    """Other files are being read."""

    status = 503
    code = "busy"
    retry_after_s = 10


class ReaderUnavailable(LabCarbonError):
    """This machine cannot limit the process, so no file is read."""

    status = 503
    code = "unavailable"


def read_file(file: IO[bytes], inputs: Mapping[str, Shape]) -> OnnxCosts:
    """Return the costs of the model in ``file``. Raises InvalidInput, ReaderBusy,
    ReaderUnavailable.
    """
    if not _RUNNING.acquire(timeout=_WAIT_S):
        raise ReaderBusy("Another model file is being read.", hint="Try again in a minute.")
    try:
        content, status = _run(file, {"inputs": {name: list(inputs[name]) for name in inputs}})
    finally:
        _RUNNING.release()
    return _parse(content, status)


def _run(file: IO[bytes], request: Mapping[str, object]) -> tuple[bytes, int]:
    """Return what the process wrote, and its exit status. Raises InvalidInput."""
    file.seek(0)
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", _PROGRAM, json.dumps(request), str(_ROOT)],
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_ENVIRONMENT,
        cwd="/",
    )
    assert process.stdout is not None
    deadline_s = time.monotonic() + MAX_WALL_S
    try:
        content = _receive(process.stdout, deadline_s)
        return content, process.wait(max(0.0, deadline_s - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        raise _refused(f"Reading the file takes longer than {MAX_WALL_S:.0f} s.") from error
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _receive(output: IO[bytes], deadline_s: float) -> bytes:
    """Return the complete output of the process. Raises InvalidInput, TimeoutError."""
    parts: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline_s - time.monotonic())):
                raise TimeoutError
            part = os.read(output.fileno(), _READ_BYTES)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > MAX_RESPONSE_BYTES:
                raise _refused("The model has too many layers with long names.")


def _parse(content: bytes, status: int) -> OnnxCosts:
    try:
        response = msgspec.json.decode(content, type=ReaderResponse)
    except msgspec.DecodeError as error:
        raise _ended(status) from error
    if response.refused is not None:
        refusal = response.refused
        raise InvalidInput(refusal.message, field=refusal.field, hint=refusal.hint)
    if response.is_unlimited:
        raise ReaderUnavailable(
            "This server cannot limit the program that reads model files, so it reads none.",
            hint="Run the server on Linux with seccomp, or enter the layers.",
        )
    if response.costs is None or status:
        raise _ended(status)
    return response.costs


def _ended(status: int) -> InvalidInput:
    """Return the error of a process that ended without a response."""
    if status == -signal.SIGXCPU:
        return _refused(f"Reading the file needs more than {MAX_CPU_S} s of processor time.")
    if status == MEMORY_STATUS:
        return _refused(f"Reading the file needs more than {MAX_MEMORY_BYTES >> 20} MiB of memory.")
    return _refused("The program that reads model files cannot read this file, and ended.")


def _refused(message: str) -> InvalidInput:
    return InvalidInput(message, field="file", hint=_PLAN_A_PART)
