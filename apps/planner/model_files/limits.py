"""Limits that the child process sets for itself before it reads a file of others.

Memory, processor time, open files and file size by resource limits. Afterwards a system call filter
(seccomp, Linux) leaves what arithmetic on memory needs: no file can be opened, no connection made,
no process started.
"""

import ctypes
import platform
import resource
import signal

MAX_MEMORY_BYTES = 768 << 20  # of addresses, with the interpreter and its libraries
MAX_CPU_S = 20
MEMORY_STATUS = 3  # exit status of a process that needs more memory
_MAX_OPEN_FILES = 64

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 4, 38, 22
_SECCOMP_MODE_FILTER = 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO | EPERM
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06  # BPF: load a word, jump if equal, return
_NUMBER_OFFSET, _ARCH_OFFSET = 0, 4  # of struct seccomp_data
# What reading, computing, writing and ending need, by machine: the audit constant of the
# architecture, and the numbers of asm/unistd.h.
_ARCHITECTURES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (0xC000003E, {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10,
        "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
        "mremap": 25, "sched_yield": 24, "madvise": 28, "getpid": 39, "exit": 60, "gettid": 186,
        "futex": 202, "clock_gettime": 228, "exit_group": 231, "tgkill": 234, "getrandom": 318,
        "getrusage": 98, "sigaltstack": 131,
    }),
    "aarch64": (0xC00000B7, {
        "read": 63, "write": 64, "close": 57, "fstat": 80, "lseek": 62, "mmap": 222,
        "mprotect": 226, "munmap": 215, "brk": 214, "rt_sigaction": 134, "rt_sigprocmask": 135,
        "rt_sigreturn": 139, "mremap": 216, "sched_yield": 124, "madvise": 233, "getpid": 172,
        "exit": 93, "gettid": 178, "futex": 98, "clock_gettime": 113, "exit_group": 94,
        "tgkill": 131, "getrandom": 278, "getrusage": 165, "sigaltstack": 132,
    }),
}  # fmt: skip


class LimitsUnavailable(Exception):
    """This machine cannot limit the process."""


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


def limit_resources() -> None:
    """Limit memory, processor time, open files and written files, before any library is loaded."""
    for kind, most in (
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_S),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # A second more than the limit that sends SIGXCPU, which names the reason.
        last = limit + 1 if kind == resource.RLIMIT_CPU else limit
        resource.setrlimit(kind, (limit, last if hard == resource.RLIM_INFINITY else hard))
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _control(_PR_SET_DUMPABLE, 0)


def filter_system_calls() -> None:
    """Refuse every system call that reading and computing do not need. It cannot be undone."""
    if platform.machine() not in _ARCHITECTURES:
        raise LimitsUnavailable(f"no filter for {platform.machine()}")
    architecture, allowed = _ARCHITECTURES[platform.machine()]
    numbers = sorted(set(allowed.values()))
    lines = [
        (_LOAD, 0, 0, _ARCH_OFFSET),
        (_EQUALS, 0, len(numbers) + 1, architecture),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        *((_EQUALS, len(numbers) - i, 0, number) for i, number in enumerate(numbers)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    instructions = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    program = _Program(len(lines), instructions)
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    _control(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program))


def _control(option: int, *arguments: object) -> None:
    control = ctypes.CDLL(None, use_errno=True).prctl
    padded = [
        ctypes.c_ulong(part) if isinstance(part, int) else part for part in (*arguments, 0, 0, 0, 0)
    ][:4]
    if control(ctypes.c_int(option), *padded) != 0:
        raise LimitsUnavailable(f"prctl {option}: error {ctypes.get_errno()}")
