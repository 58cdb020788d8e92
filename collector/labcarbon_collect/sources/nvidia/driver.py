"""NVML access. A query returns a value, None, or raises :class:`GpuLost`.

None means that the driver refuses or does not know the query; unknown is not zero. GpuLost means
that the GPU or its driver no longer responds.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, List, Optional, Tuple

from labcarbon_collect.sources.base import SourceAbsent, SourceFailed

# NVML return codes about the query, not about the health of the GPU.
INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, LIB_RM_VERSION_MISMATCH = 9, 12, 13, 18
NO_DATA, ARGUMENT_VERSION_MISMATCH, DEPRECATED = 21, 25, 26
NO_VALUE_CODES = frozenset(
    # 0: the binding raises it for an empty list of utilisation samples
    (0, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND, NO_DATA,
     ARGUMENT_VERSION_MISMATCH, DEPRECATED)
)  # fmt: skip

LIBRARY = "libnvidia-ml.so.1"  # the file that the binding loads
CONTROL_DEVICE = "/dev/nvidiactl"
NVIDIA_VENDOR = "0x10de"


class GpuLost(Exception):
    """The GPU fell off the bus, was reset, or its driver was reloaded. Its handle is invalid."""


class Driver:
    """An initialised NVML."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        # Not a subclass of NVMLError, and missing in bindings before 12.550, which a site may have
        # pinned.
        self._mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)

    def query(self, name: str, *arguments: Any) -> Any:
        """Call an NVML function. None: refused, not supported, or unknown to this driver. Raises
        GpuLost.
        """
        return self.query_with_code(name, *arguments)[0]

    def query_with_code(self, name: str, *arguments: Any) -> Tuple[Any, int]:
        """As :meth:`query`, with the return code (0: a value)."""
        function = getattr(self._nvml, name, None)
        if function is None:
            return None, FUNCTION_NOT_FOUND
        try:
            return function(*arguments), 0
        except self._nvml.NVMLError as error:
            if error.value in NO_VALUE_CODES:
                return None, int(error.value) or NO_DATA
            raise GpuLost(f"{name}: {error}") from error
        except self._mismatch:  # the library lacks this version of the function
            return None, FUNCTION_NOT_FOUND

    def function(self, name: str) -> Callable[..., int]:
        """Return a function of the C library, which returns an NVML code."""
        try:
            return getattr(self._nvml.nvmlLib, name)  # type: ignore[no-any-return]
        except AttributeError:  # the library lacks it
            return _not_found

    def has_value(self, name: str, code: int) -> bool:
        """Whether a function of the C library returned a value: as :meth:`query` with its code.
        Raises GpuLost.
        """
        if code == 0:
            return True
        if code in NO_VALUE_CODES:
            return False
        raise GpuLost(f"{name}: {self._nvml.NVMLError(code)}")

    def close(self) -> None:
        """Release the driver. Never raises."""
        with suppress(self._nvml.NVMLError):  # already shut down
            self._nvml.nvmlShutdown()


def _not_found(*arguments: Any) -> int:
    return FUNCTION_NOT_FOUND


def open_driver() -> Driver:
    """Load and initialise NVML. Raises SourceAbsent with the fix, SourceFailed for a temporary
    error.
    """
    if "pynvml" not in sys.modules and not _is_library_installed():
        raise _open_error(LIBRARY_NOT_FOUND, "")
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError:
        raise SourceAbsent(
            "the Python package nvidia-ml-py is missing", "pip install nvidia-ml-py"
        ) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _open_error(int(error.value), str(error)) from error
    return Driver(pynvml)


def _is_library_installed() -> bool:
    """Whether the driver's library can be loaded. Importing the binding costs 17 MB, and most nodes
    have no GPU.
    """
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def _open_error(code: int, text: str) -> Exception:
    if code == LIBRARY_NOT_FOUND:
        return SourceAbsent(
            "no NVIDIA driver: libnvidia-ml.so.1 is missing",
            "if there is an NVIDIA GPU, install its driver (Debian: apt-get install "
            "nvidia-driver; in a container: "
            "start it with --gpus all)",
        )
    if code == LIB_RM_VERSION_MISMATCH:
        return SourceAbsent(
            (
                "the NVIDIA driver was upgraded but the old kernel module is still loaded "
                "(driver/library mismatch)"
            ),
            (
                "reboot, or stop all GPU jobs and run: rmmod nvidia_uvm nvidia_drm nvidia_modeset "
                "nvidia && modprobe nvidia"
            ),
        )
    if code == NO_PERMISSION or (
        os.path.exists(CONTROL_DEVICE) and not os.access(CONTROL_DEVICE, os.R_OK | os.W_OK)
    ):
        return SourceAbsent(
            f"no permission on {CONTROL_DEVICE}",
            "add the collector's user to the group that owns the devices (ls -l /dev/nvidia*): "
            "usermod -aG video labcarbon, then restart the collector",
        )
    if code == DRIVER_NOT_LOADED:
        return SourceAbsent("the NVIDIA kernel module is not loaded", "modprobe nvidia")
    return SourceFailed(f"NVML did not start: {text}")


def nvidia_functions(sys_root: str) -> List[Path]:
    """Return the sysfs folders of the NVIDIA display functions (PCI class 03), [] without sysfs
    data.
    """
    return [
        folder
        for folder in sorted((Path(sys_root) / "bus/pci/devices").glob("*"))
        if _read_text(folder / "vendor") == NVIDIA_VENDOR
        and (_read_text(folder / "class") or "").startswith("0x03")
    ]


def is_suspended(folder: Path) -> bool:
    """Whether the kernel has suspended this PCI function. Reading this does not wake it; an NVML
    query would.
    """
    return is_suspended_status(_read_text(folder / "power/runtime_status") or "")


def is_suspended_status(status: str) -> bool:
    """Whether a status of runtime power management is that of a suspended function."""
    return status in ("suspended", "suspending")


def may_suspend(folder: Path) -> bool:
    """Whether runtime power management is enabled for this function (laptops)."""
    return _read_text(folder / "power/control") == "auto"


def pci_folder(sys_root: str, bus_id: str) -> Optional[Path]:
    """Return the sysfs folder for NVML's bus id (``00000000:01:00.0``), whose domain has eight
    digits.
    """
    domain, _, rest = bus_id.partition(":")
    folder = Path(sys_root) / "bus/pci/devices" / f"{domain[-4:]}:{rest}".lower()
    return folder if rest and folder.is_dir() else None


def _read_text(path: Path) -> Optional[str]:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
