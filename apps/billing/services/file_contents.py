"""Reading of the lines of an uploaded export, as a stream, by jobs."""

from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import islice
from uuid import UUID

from apps.billing.aggregation import Scan, Totals, add_line, millionths
from apps.billing.choices import FileState
from apps.billing.collectors import instances_of, known_instances
from apps.billing.formats.line import Line
from apps.billing.formats.reader import open_reader
from apps.billing.models import (
    BilledMonth,
    BillingAccount,
    BillingFile,
    BillingItem,
    BillingTag,
    FilePart,
)
from apps.billing.services.covered_hours import set_covered_hours
from apps.billing.services.month_uses import compute_uses, save_results
from apps.billing.uploaded_texts import MAX_UNPACKED_BYTES, PartsFile, text_files
from apps.core.errors import InvalidInput, LabCarbonError, TooLarge
from apps.core.jobs import renew_lease

ITEM_BATCH = 5_000


def scan_file(*, uuid: UUID) -> None:
    """Find the accounts, months and tags of a file."""
    file = _file_in(uuid, FileState.SCANNING)
    if file is None:
        return
    scan = Scan()

    def read() -> None:
        for line in _lines(file):
            scan.add(line)
        if not scan.accounts:
            raise InvalidInput(
                "The export has no line of compute, storage or transfer.",
                field="file",
                hint="Check that it is the export of the whole account.",
            )

    if not _read_or_refuse(file, read):
        return
    found = {
        "accounts": dict(sorted(scan.accounts.items())),
        "months": dict(sorted(scan.months.items())),
        "tags": {key: dict(sorted(values.items())) for key, values in sorted(scan.tags.items())},
        "has_more_tags": scan.has_more_tags,
        "lacks_instances": not scan.has_resources and bool(instances_of(file.lab)),
    }
    BillingFile.objects.filter(pk=file.pk, state=FileState.SCANNING).update(
        state=FileState.MAPPING,
        provider=file.provider,
        found=found,
        lines=scan.lines,
        bytes_done=file.bytes,
    )


def read_file(*, uuid: UUID, now: int) -> None:
    """Sum the lines of the mapped accounts and save them as months that are not current yet."""
    file = _file_in(uuid, FileState.READING)
    if file is None:
        return
    lab = file.lab
    accounts = BillingAccount.objects.filter(lab=lab, provider=file.provider, is_included=True)
    projects = dict(accounts.values_list("account", "project"))
    tag = file.options.get("tag", "")
    tagged = dict(
        BillingTag.objects.filter(lab=lab, provider=file.provider, key=tag).values_list(
            "value", "project"
        )
    )

    def project_of(line: Line) -> int | None:
        found = tagged.get(line.tags.get(tag, "")) if tag else None
        return projects[line.account] if found is None else found

    totals = Totals()
    included, resources = frozenset(projects), known_instances(lab)

    def read() -> None:
        for line in _lines(file):
            add_line(totals, line, project_of, included, resources)

    if not _read_or_refuse(file, read):
        return
    months = _store_months(file, totals)
    for month in months:
        renew_lease()
        set_covered_hours(month)
        save_results(month, compute_uses(month, now))
    BillingFile.objects.filter(pk=file.pk, state=FileState.READING).update(
        state=FileState.CHECKED,
        bytes_done=file.bytes,
        lines=totals.lines,
        ignored=totals.ignored,
    )


def _store_months(file: BillingFile, totals: Totals) -> list[BilledMonth]:
    """Replace the months of a file that is not confirmed."""
    file.months.all().delete()
    months = {
        where: BilledMonth.objects.create(
            file=file,
            lab=file.lab,
            provider=file.provider,
            account=where[0],
            month=where[1],
            currency=currency,
        )
        for where, currency in sorted(totals.currencies.items())
    }
    rows = (
        BillingItem(
            month=months[key.account, key.month],
            start_us=key.start_us,
            end_us=key.end_us,
            charge=key.charge,
            category=key.category,
            instance_type=key.instance_type,
            gpu=key.gpu,
            medium=key.medium,
            region=key.region,
            resource=key.resource,
            project_id=key.project,
            amount_millionths=millionths(sums.amount),
            cost_ucurrency=millionths(sums.cost),
            lines=sums.lines,
        )
        for key, sums in totals.items.items()
    )
    while batch := list(islice(rows, ITEM_BATCH)):
        renew_lease()
        BillingItem.objects.bulk_create(batch, batch_size=500)
    return list(months.values())


def _file_in(uuid: UUID, state: FileState) -> BillingFile | None:
    return BillingFile.objects.select_related("lab").filter(uuid=uuid, state=state).first()


def _read_or_refuse(file: BillingFile, read: Callable[[], None]) -> bool:
    """Read a file; return whether it could be read. A refused file says why."""
    try:
        read()
    except LabCarbonError as error:
        BillingFile.objects.filter(pk=file.pk, state=file.state).update(
            state=FileState.REFUSED, problem=f"{error.message} {error.hint}".strip()[:600]
        )
        FilePart.objects.filter(file=file).delete()
        return False
    return True


def _lines(file: BillingFile) -> Iterator[Line]:
    """Yield the lines of all files of an upload, and save the progress. Sets the provider."""
    budget = [MAX_UNPACKED_BYTES]
    contents: set[bytes] = set()
    progress = _Progress(file)
    before = 0
    for number, part in enumerate(file.parts):
        raw = _parts_file(file, number, part["bytes"])

        def tick(raw: BufferedReader = raw, before: int = before) -> None:
            renew_lease()
            progress.save(before + raw.tell())

        for name, text in text_files(raw, part["name"], budget, tick):
            reader = None
            try:
                reader = open_reader(text)
                if file.provider and file.provider != reader.provider:
                    raise InvalidInput(
                        "The files are exports of different providers.",
                        field="file",
                        hint="Upload the export of one provider at a time.",
                    )
                file.provider = reader.provider
                yield from reader.lines
                if reader.digest.digest() in contents:
                    raise InvalidInput(
                        "The same lines are in another file of this upload.",
                        field="file",
                        hint="Upload each part of the export once.",
                    )
                contents.add(reader.digest.digest())
            except UnicodeDecodeError as error:
                raise InvalidInput(
                    f"{name} is not UTF-8 text.",
                    field="file",
                    hint="Upload CSV or JSON, packed at most once.",
                ) from error
            except (InvalidInput, TooLarge) as error:
                if reader is not None and reader.number and not error.message.startswith(name):
                    error.message = f"{name}, line {reader.number}: {error.message}"
                raise
        before += part["bytes"]


class _Progress:
    """Progress of a file, saved at each hundredth."""

    def __init__(self, file: BillingFile) -> None:
        self._file, self._saved = file, 0

    def save(self, done: int) -> None:
        if done - self._saved < max(1, self._file.bytes // 100):
            return
        self._saved = done
        BillingFile.objects.filter(pk=self._file.pk, state=self._file.state).update(
            bytes_done=min(done, self._file.bytes)
        )


def _parts_file(file: BillingFile, number: int, size: int) -> BufferedReader:
    def read_part(position: int) -> bytes:
        part = FilePart.objects.get(file=file, number=number, position=position)
        return bytes(part.content)

    return BufferedReader(PartsFile(size, read_part), buffer_size=1 << 16)
