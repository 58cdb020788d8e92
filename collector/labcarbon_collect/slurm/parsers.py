"""Reads what squeue, scontrol and sacct print. Pure.

A job's name may hold separators, line ends and whole forged lines, so nothing is looked for in a text that holds one:
fields are divided by a text nobody could know beforehand, and the name stands last.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone, tzinfo
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from labcarbon_collect.slurm.jobs import RUNNING, JobFacts, array_of, reserved_gpus, said, state_of, whole_number

# What squeue is asked for, in order; the name, which its user chose, last.
_SQUEUE = ("%A", "%F", "%K", "%u", "%a", "%P", "%T", "%V", "%S", "%e", "%N", "%j")
# What sacct is asked for, in order.
SACCT = (
    "JobIDRaw", "Cluster", "JobID", "User", "Account", "Partition", "State", "ExitCode", "Submit", "Start", "End",
    "NodeList", "AllocTRES", "ConsumedEnergyRaw", "JobName",
)  # fmt: skip
_NEEDED = ("JobIDRaw", "State", "Start", "JobName")
# Fixed widths: only fields in which nobody can write.
SQUEUE_LONG = "JobID:24,exit_code:24,tres-alloc:512"


class NotSacct(Exception):
    """This is not what sacct prints; the text says what is missing and what mends it."""


def time_us(text: str, zone: Optional[tzinfo] = None) -> Optional[int]:
    """A time of Slurm in µs UTC: seconds since 1970, or ISO 8601 in ``zone`` (None: this machine's). None: not told."""
    text = said(text)
    if not text:
        return None
    if text.isdigit():
        return int(text) * 1_000_000 if 0 < int(text) < 1 << 40 else None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
    delta = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def squeue_format(mark: str) -> str:
    """The ``-o`` of squeue: fields divided by ``mark``, each record between two bounds of its own (a field may be empty)."""
    return _bound(mark) + mark.join(_SQUEUE) + _bound(mark)


def _bound(mark: str) -> str:
    return f"#{mark.strip('|')}#"


def squeue_jobs(text: str, mark: str, cluster: str) -> Dict[str, JobFacts]:
    """Job id → facts, from ``squeue -o`` with :func:`squeue_format`."""
    found = {}
    for record in text.split(_bound(mark)):
        fields = record.split(mark)
        if len(fields) != len(_SQUEUE) or not fields[0].isdigit():
            continue  # the line ends between records
        job_id, base, task, user, account, partition, state, submitted, started, ended, nodes, name = fields
        in_array = task.isdigit()
        found[job_id] = JobFacts(
            cluster=cluster, job_id=job_id, user=said(user), account=said(account), partition=said(partition),
            name=name, slurm_state=said(state), submitted_us=time_us(submitted), started_us=time_us(started),
            ended_us=time_us(ended) if _over(state) else None, nodes=said(nodes),
            array_job_id=base if in_array else "", array_task=task if in_array else "",
        )  # fmt: skip
    return found


def _over(state: str) -> bool:
    """Whether a job has ended: of one that goes on, squeue tells the time limit as its end."""
    return state_of(state) not in ("", RUNNING)


def squeue_closing(text: str) -> Dict[str, Tuple[str, Optional[int]]]:
    """Job id → (exit "code:signal", reserved GPUs) from ``squeue -O`` with :data:`SQUEUE_LONG`."""
    found = {}
    for line in text.splitlines():
        job_id, code, tres = line[:24].strip(), line[24:48].strip(), line[48:].strip()
        if job_id.isdigit():
            found[job_id] = (_exit_of_status(code), reserved_gpus(tres))
    return found


def _exit_of_status(text: str) -> str:
    """``code:signal`` of a wait status, which is what squeue prints (768: exit code 3; 15: signal 15)."""
    return f"{int(text) >> 8 & 255}:{int(text) & 127}" if text.isdigit() else ""


def gpu_indices(text: str, name: str) -> Dict[str, List[int]]:
    """Node → indices of the GPUs that a job holds, from ``scontrol -d show job``; ``name`` is the job's, as squeue says.

    Only lines behind the name are looked at, and the first of each node counts: comment and paths come later.
    """
    begin = text.find(f"JobName={name}\n")
    if begin < 0:
        return {}
    found: Dict[str, List[int]] = {}
    for line in text[begin + len(name) + len("JobName=\n") :].splitlines():
        if line.strip().startswith(("Command=", "WorkDir=", "Comment=")):
            break
        held = re.match(r"^\s+Nodes=(\S+) CPU_IDs=\S* Mem=\S+ GRES=(\S*)", line)
        if held and "[" not in held.group(1):
            found.setdefault(held.group(1), _indices(held.group(2)))
    return {node: indices for node, indices in found.items() if indices}


def _indices(gres: str) -> List[int]:
    """``gpu:a100:3(IDX:0-1,3)`` → [0, 1, 3]; other resources are passed over."""
    indices: List[int] = []
    for ranges in re.findall(r"(?:^|,)gpu(?::[^(,]+)?\(IDX:([\d,-]+)\)", gres):
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            if first.isdigit():
                indices.extend(range(int(first), int(last or first) + 1))
    return indices


def sacct_jobs(
    lines: Iterable[str], *, cluster: str = "", zone: Optional[tzinfo] = None, wrong: Callable[[int, str], None]
) -> Iterator[JobFacts]:
    """Jobs from ``sacct --parsable2`` with its header. ``wrong(line number, why)`` hears of rows that cannot be read.

    Steps (``12.batch``) are passed over. ``cluster`` stands in where there is no such column. Raises NotSacct.
    """
    rows = _sacct_rows(lines)
    for number, row in rows:
        try:
            job = _sacct_job(row, cluster, zone)
        except ValueError as error:
            wrong(number, str(error))
            continue
        if job is not None:
            yield job


def _sacct_rows(lines: Iterable[str]) -> Iterator[Tuple[int, Mapping[str, str]]]:
    """(line number, column → text). A line that is no row of its own goes on in the name before it."""
    numbered = enumerate(lines, start=1)
    header = next((line.rstrip("\r\n") for _, line in numbered if line.strip()), "")
    mark, columns = _columns(header)
    begun: Optional[Tuple[int, List[str]]] = None
    for number, line in numbered:
        fields = line.rstrip("\n").split(mark, len(columns) - 1)
        if len(fields) == len(columns) and re.match(r"^\d+(?:[._+\[]|$)", fields[0]):
            if begun is not None:
                yield begun[0], dict(zip(columns, begun[1]))
            begun = (number, fields)
        elif begun is not None:
            begun[1][-1] += "\n" + line.rstrip("\n")
    if begun is not None:
        yield begun[0], dict(zip(columns, begun[1]))


def _columns(header: str) -> Tuple[str, List[str]]:
    """The separator and the columns of a header. The job's id stands first, its name last."""
    # Every column's name begins with a capital letter; no separator of ours holds one.
    found = re.match(r"^JobIDRaw(.+?)(?=[A-Z])", header)
    mark = found.group(1) if found else ""
    columns = header.split(mark) if mark else []
    missing = [name for name in _NEEDED if name not in columns]
    if missing or columns[-1] != "JobName":
        raise NotSacct(
            "the first line must name the columns, JobIDRaw first and JobName last"
            + (f" ({', '.join(missing)} missing)" if missing else "")
            + f": sacct --allusers --allocations --parsable2 --format={','.join(SACCT)}"
        )
    return mark, columns


def _sacct_job(row: Mapping[str, str], cluster: str, zone: Optional[tzinfo]) -> Optional[JobFacts]:
    job_id = row["JobIDRaw"]
    if not job_id.isdigit():
        return None  # a step
    where = said(row.get("Cluster", "")) or cluster
    if not where:
        raise ValueError(f"job {job_id}: no cluster is named; add the column Cluster, or --cluster NAME")
    array_job_id, array_task = array_of(row.get("JobID", ""))
    energy_j = whole_number(row.get("ConsumedEnergyRaw", "").strip())
    return JobFacts(
        cluster=where.lower(), job_id=job_id, user=said(row.get("User", "")), account=said(row.get("Account", "")),
        partition=said(row.get("Partition", "")), name=row["JobName"], slurm_state=said(row["State"]),
        exit=said(row.get("ExitCode", "")), submitted_us=time_us(row.get("Submit", ""), zone),
        started_us=time_us(row["Start"], zone), ended_us=time_us(row.get("End", ""), zone),
        nodes=said(row.get("NodeList", "")).replace("None assigned", ""), array_job_id=array_job_id, array_task=array_task,
        reserved_gpus=reserved_gpus(row.get("AllocTRES", "")), consumed_energy_j=energy_j or None,
    )  # fmt: skip
