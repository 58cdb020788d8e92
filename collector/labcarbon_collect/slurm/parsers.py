"""Parsers of the output of squeue, scontrol and sacct. Pure.

A job's name may contain separators, line ends and forged lines. Fields are therefore separated by a
random delimiter, and the name is the last field.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone, tzinfo
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from labcarbon_collect.slurm.jobs import (
    RUNNING,
    JobFacts,
    field_text,
    parse_array_id,
    parse_count,
    reserved_gpus,
    run_state,
)

# Columns of squeue, in order. The name is last because its user chose it.
_SQUEUE = ("%A", "%F", "%K", "%u", "%a", "%P", "%T", "%V", "%S", "%e", "%N", "%j")
# Columns of sacct, in order.
SACCT = (
    "JobIDRaw", "Cluster", "JobID", "User", "Account", "Partition", "State", "ExitCode", "Submit",
    "Start", "End", "NodeList", "AllocTRES", "ConsumedEnergyRaw", "JobName",
)  # fmt: skip
_REQUIRED_COLUMNS = ("JobIDRaw", "State", "Start", "JobName")
# Fixed widths, only for fields that users cannot write.
SQUEUE_LONG = "JobID:24,exit_code:24,tres-alloc:512"


class SacctFormatError(Exception):
    """The text is not the output of sacct. The message names the missing columns and the fix."""


def parse_time_us(text: str, zone: Optional[tzinfo] = None) -> Optional[int]:
    """Return a Slurm time in µs UTC: seconds since 1970, or ISO 8601 in ``zone`` (None: local
    time). None if it is empty.
    """
    text = field_text(text)
    if not text:
        return None
    if text.isdigit():
        return int(text) * 1_000_000 if 0 < int(text) < 1 << 40 else None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
    delta = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def squeue_format(delimiter: str) -> str:
    """Return the ``-o`` format of squeue: fields separated by ``delimiter``, each record enclosed
    in boundaries.
    """
    return _record_boundary(delimiter) + delimiter.join(_SQUEUE) + _record_boundary(delimiter)


def _record_boundary(delimiter: str) -> str:
    return f"#{delimiter.strip('|')}#"


def parse_squeue_jobs(text: str, delimiter: str, cluster: str) -> Dict[str, JobFacts]:
    """Return job id → facts, from ``squeue -o`` with :func:`squeue_format`."""
    jobs = {}
    for record in text.split(_record_boundary(delimiter)):
        fields = record.split(delimiter)
        if len(fields) != len(_SQUEUE) or not fields[0].isdigit():
            continue  # the line ends between records
        (
            job_id,
            base,
            task,
            user,
            account,
            partition,
            state,
            submitted,
            started,
            ended,
            nodes,
            name,
        ) = fields
        in_array = task.isdigit()
        jobs[job_id] = JobFacts(
            cluster=cluster,
            job_id=job_id,
            user=field_text(user),
            account=field_text(account),
            partition=field_text(partition),
            name=name,
            slurm_state=field_text(state),
            submitted_us=parse_time_us(submitted),
            started_us=parse_time_us(started),
            ended_us=parse_time_us(ended) if _has_ended(state) else None,
            nodes=field_text(nodes),
            array_job_id=base if in_array else "",
            array_task=task if in_array else "",
        )
    return jobs


def _has_ended(state: str) -> bool:
    """Return whether a job has ended. For an active job squeue prints the time limit as its end."""
    return run_state(state) not in ("", RUNNING)


def parse_squeue_closing(text: str) -> Dict[str, Tuple[str, Optional[int]]]:
    """Return job id → (exit "code:signal", reserved GPUs) from ``squeue -O`` with
    :data:`SQUEUE_LONG`.
    """
    closing = {}
    for line in text.splitlines():
        job_id, code, tres = line[:24].strip(), line[24:48].strip(), line[48:].strip()
        if job_id.isdigit():
            closing[job_id] = (_parse_wait_status(code), reserved_gpus(tres))
    return closing


def _parse_wait_status(text: str) -> str:
    """Return ``code:signal`` of a wait status, as squeue prints it (768: exit code 3; 15: signal
    15).
    """
    return f"{int(text) >> 8 & 255}:{int(text) & 127}" if text.isdigit() else ""


def parse_gpu_indices(text: str, name: str) -> Dict[str, List[int]]:
    """Return node → indices of a job's GPUs, from ``scontrol -d show job``. ``name`` is the job's
    name as in squeue.

    Only lines after the name are read, and the first of each node counts, because comment and paths
    follow.
    """
    start = text.find(f"JobName={name}\n")
    if start < 0:
        return {}
    indices_by_node: Dict[str, List[int]] = {}
    for line in text[start + len(name) + len("JobName=\n") :].splitlines():
        if line.strip().startswith(("Command=", "WorkDir=", "Comment=")):
            break
        match = re.match(r"^\s+Nodes=(\S+) CPU_IDs=\S* Mem=\S+ GRES=(\S*)", line)
        if match and "[" not in match.group(1):
            indices_by_node.setdefault(match.group(1), _parse_indices(match.group(2)))
    return {node: indices for node, indices in indices_by_node.items() if indices}


def _parse_indices(gres: str) -> List[int]:
    """Parse ``gpu:a100:3(IDX:0-1,3)`` → [0, 1, 3]. Other resources are ignored."""
    indices: List[int] = []
    for ranges in re.findall(r"(?:^|,)gpu(?::[^(,]+)?\(IDX:([\d,-]+)\)", gres):
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            if first.isdigit():
                indices.extend(range(int(first), int(last or first) + 1))
    return indices


def parse_sacct_jobs(
    lines: Iterable[str],
    *,
    cluster: str = "",
    zone: Optional[tzinfo] = None,
    on_invalid_row: Callable[[int, str], None],
) -> Iterator[JobFacts]:
    """Yield jobs from ``sacct --parsable2`` with its header. Unreadable rows: ``on_invalid_row(line
    number, reason)``.

    Steps (``12.batch``) are ignored. ``cluster`` is used if there is no such column. Raises
    SacctFormatError.
    """
    rows = _parse_sacct_rows(lines)
    for number, row in rows:
        try:
            job = _parse_sacct_job(row, cluster, zone)
        except ValueError as error:
            on_invalid_row(number, str(error))
            continue
        if job is not None:
            yield job


def _parse_sacct_rows(lines: Iterable[str]) -> Iterator[Tuple[int, Mapping[str, str]]]:
    """Yield (line number, column → text). A line that is not a row continues the name before it."""
    numbered = enumerate(lines, start=1)
    header = next((line.rstrip("\r\n") for _, line in numbered if line.strip()), "")
    delimiter, columns = _parse_header(header)
    current_row: Optional[Tuple[int, List[str]]] = None
    for number, line in numbered:
        fields = line.rstrip("\n").split(delimiter, len(columns) - 1)
        if len(fields) == len(columns) and re.match(r"^\d+(?:[._+\[]|$)", fields[0]):
            if current_row is not None:
                yield current_row[0], dict(zip(columns, current_row[1]))
            current_row = (number, fields)
        elif current_row is not None:
            current_row[1][-1] += "\n" + line.rstrip("\n")
    if current_row is not None:
        yield current_row[0], dict(zip(columns, current_row[1]))


def _parse_header(header: str) -> Tuple[str, List[str]]:
    """Return the delimiter and the columns of a header. The job id is the first column, the name
    the last.
    """
    # Every column name starts with a capital letter. No delimiter contains one.
    match = re.match(r"^JobIDRaw(.+?)(?=[A-Z])", header)
    delimiter = match.group(1) if match else ""
    columns = header.split(delimiter) if delimiter else []
    missing = [name for name in _REQUIRED_COLUMNS if name not in columns]
    if missing or columns[-1] != "JobName":
        raise SacctFormatError(
            "the first line must be a header with JobIDRaw first and JobName last"
            + (f" ({', '.join(missing)} missing)" if missing else "")
            + f": sacct --allusers --allocations --parsable2 --format={','.join(SACCT)}"
        )
    return delimiter, columns


def _parse_sacct_job(
    row: Mapping[str, str], cluster: str, zone: Optional[tzinfo]
) -> Optional[JobFacts]:
    job_id = row["JobIDRaw"]
    if not job_id.isdigit():
        return None  # a step
    cluster_name = field_text(row.get("Cluster", "")) or cluster
    if not cluster_name:
        raise ValueError(f"job {job_id}: no cluster; add the column Cluster, or use --cluster NAME")
    array_job_id, array_task = parse_array_id(row.get("JobID", ""))
    energy_j = parse_count(row.get("ConsumedEnergyRaw", "").strip())
    return JobFacts(
        cluster=cluster_name.lower(),
        job_id=job_id,
        user=field_text(row.get("User", "")),
        account=field_text(row.get("Account", "")),
        partition=field_text(row.get("Partition", "")),
        name=row["JobName"],
        slurm_state=field_text(row["State"]),
        exit=field_text(row.get("ExitCode", "")),
        submitted_us=parse_time_us(row.get("Submit", ""), zone),
        started_us=parse_time_us(row["Start"], zone),
        ended_us=parse_time_us(row.get("End", ""), zone),
        nodes=field_text(row.get("NodeList", "")).replace("None assigned", ""),
        array_job_id=array_job_id,
        array_task=array_task,
        reserved_gpus=reserved_gpus(row.get("AllocTRES", "")),
        consumed_energy_j=energy_j or None,
    )
