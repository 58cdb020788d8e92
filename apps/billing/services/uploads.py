"""Upload of a billing export, and what its accounts and tags mean."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Lab, Project, User
from apps.accounts.selectors import project_by_slug
from apps.billing.choices import FileState
from apps.billing.models import BillingAccount, BillingFile, BillingTag, FilePart
from apps.billing.uploaded_texts import MAX_UNPACKED_BYTES, PART_BYTES
from apps.core.errors import Conflict, InvalidInput, NotFound, TooLarge
from apps.core.jobs import enqueue
from apps.core.spreadsheets.sources import base_name
from apps.core.text import parse_decimal

SCAN, READ = "billing.scan_file", "billing.read_file"
RECORD, REVIEW = "billing.record_file", "billing.review_file"
EXPIRY_US = 7 * 24 * 3_600_000_000  # an unconfirmed file is deleted after a week
MAX_FILES = 100
DEFAULT_UTILIZATION = "50"  # mean of Cloud Carbon Footprint, Methodology, without measurements


@dataclass(frozen=True)
class UploadedFile:
    """A file of an export. ``chunks``: its bytes."""

    name: str
    chunks: Iterable[bytes]


@dataclass(frozen=True)
class Assignment:
    """What accounts and tags mean. Projects are short names, '' for none.

    - ``accounts``: whether an account belongs to the lab, and its project.
    - ``tag``: its value names the project, '' for none. ``tags``: projects of its values.
    - ``utilization``: mean utilization of instances in percent.
    """

    accounts: Mapping[str, tuple[bool, str]]
    tag: str = ""
    tags: Mapping[str, str] | None = None
    utilization: str = DEFAULT_UTILIZATION


@transaction.atomic
def upload(*, lab: Lab, files: Sequence[UploadedFile], by: User | None, now: int) -> BillingFile:
    """Save the files of one export, and read their accounts by a job. Raises InvalidInput,
    TooLarge.
    """
    if not 0 < len(files) <= MAX_FILES:
        raise InvalidInput(
            f"Choose 1 to {MAX_FILES} files.", field="file", hint="They form one export."
        )
    expired = BillingFile.objects.filter(lab=lab, created_us__lt=now - EXPIRY_US)
    expired.exclude(state__in=(FileState.RECORDING, FileState.DONE)).delete()
    file = BillingFile.objects.create(
        lab=lab, name=base_name(files[0].name), sha256="", bytes=0, created_us=now, created_by=by
    )
    parts: list[dict[str, object]] = []
    digests: list[str] = []
    for number, each in enumerate(files):
        size, digest = _store(file, number, each.chunks)
        name = base_name(each.name)
        if not size:
            raise InvalidInput(f"{name} is empty.", field="file", hint="Choose another file.")
        if digest in digests:
            raise InvalidInput(
                f"{name} has the same content as another file.", field="file", hint="Remove it."
            )
        parts.append({"name": name, "bytes": size})
        digests.append(digest)
        file.bytes += size
        if file.bytes > MAX_UNPACKED_BYTES:
            raise TooLarge(
                f"An export is at most {MAX_UNPACKED_BYTES >> 30} GiB.",
                field="file",
                hint="Export one month or one account at a time.",
            )
    file.parts, file.sha256 = parts, hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
    file.save(update_fields=["parts", "sha256", "bytes"])
    enqueue(kind=SCAN, key=str(file.uuid))
    return file


def _store(file: BillingFile, number: int, chunks: Iterable[bytes]) -> tuple[int, str]:
    """Store bytes in parts; return their number and digest."""
    digest, size, position, rest = hashlib.sha256(), 0, 0, bytearray()

    def store_first() -> None:
        content = bytes(rest[:PART_BYTES])
        del rest[:PART_BYTES]
        FilePart.objects.create(file=file, number=number, position=position, content=content)

    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
        rest += chunk
        while len(rest) >= PART_BYTES:
            store_first()
            position += 1
    if rest:
        store_first()
    return size, digest.hexdigest()


def assign(*, file: BillingFile, assignment: Assignment, now: int) -> None:
    """Save what accounts and tags mean, and compute the items by a job. Raises InvalidInput,
    Conflict.
    """
    with transaction.atomic():
        stored = locked(file.uuid)
        if stored.state not in (FileState.MAPPING, FileState.CHECKED):
            raise wrong_state(stored)
        others = BillingFile.objects.filter(lab=stored.lab, state=FileState.READING)
        if others.exists():
            raise Conflict(
                "Another export is being computed.", hint="Wait until its preview is ready."
            )
        _check(stored, assignment)
        lab = stored.lab
        for account, (is_included, slug) in assignment.accounts.items():
            BillingAccount.objects.update_or_create(
                lab=lab,
                provider=stored.provider,
                account=account,
                defaults={
                    "is_included": is_included,
                    "project": _project(lab, slug),
                },
            )
        if assignment.tag:
            tags = BillingTag.objects.filter(lab=lab, provider=stored.provider, key=assignment.tag)
            for value, slug in (assignment.tags or {}).items():
                project = _project(lab, slug)
                if project is None:
                    tags.filter(value=value).delete()
                    continue
                tags.update_or_create(
                    lab=lab,
                    provider=stored.provider,
                    key=assignment.tag,
                    value=value,
                    defaults={"project": project},
                )
        stored.options = {"tag": assignment.tag, "utilization": assignment.utilization}
        stored.state, stored.bytes_done, stored.problem = FileState.READING, 0, ""
        stored.save(update_fields=["options", "state", "bytes_done", "problem"])
        enqueue(kind=READ, key=str(stored.uuid))


def _check(file: BillingFile, assignment: Assignment) -> None:
    known = file.found.get("accounts", {})
    if set(assignment.accounts) != set(known):
        raise Conflict("The accounts of this export changed.", hint="Reload the page.")
    if not any(is_included for is_included, _ in assignment.accounts.values()):
        raise InvalidInput(
            "No account is chosen.", field="accounts", hint="Choose the accounts of the lab."
        )
    if assignment.tag and assignment.tag not in file.found.get("tags", {}):
        raise InvalidInput(
            f"The export has no tag {assignment.tag[:40]!r}.", field="tag", hint="Choose another."
        )
    value = parse_decimal(assignment.utilization)
    if value is None or not 0 <= value <= 100:
        raise InvalidInput(
            "The utilization is not 0 to 100 %.",
            field="utilization",
            hint=f"Enter {DEFAULT_UTILIZATION} if it was not measured.",
        )


def _project(lab: Lab, slug: str) -> Project | None:
    if not slug:
        return None
    project = project_by_slug(lab, slug)
    if project is None:
        raise InvalidInput(
            f"There is no project {slug[:40]!r}.", field="accounts", hint="Choose one of the list."
        )
    return project


def locked(uuid: UUID) -> BillingFile:
    """Return a file and lock its row."""
    return BillingFile.objects.select_for_update(of=("self",)).get(uuid=uuid)


def wrong_state(file: BillingFile) -> Conflict:
    """Return the error of an action that the state of a file does not permit."""
    return Conflict(
        f"This export is in state {file.get_state_display().lower()}.", hint="Reload the page."
    )


def file_of(lab: Lab, uuid: UUID) -> BillingFile:
    """Return an export of the lab. Raises NotFound."""
    found = BillingFile.objects.select_related("lab", "created_by").filter(lab=lab, uuid=uuid)
    file = found.first()
    if file is None:
        raise NotFound("There is no such billing export.", hint="Upload it again.")
    return file
