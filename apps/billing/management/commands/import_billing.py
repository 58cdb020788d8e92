"""Upload a billing export of any size from the machine of the server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from apps.accounts.management.lab_option import selected_lab
from apps.billing.services.uploads import UploadedFile, upload
from apps.billing.uploaded_texts import MAX_UNPACKED_BYTES
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError

_CHUNK = 1 << 20


class Command(BaseCommand):
    help = (
        "Upload a billing export of AWS, Google Cloud or Azure. Name all files of the export: they "
        "replace the billed months that they contain. Files may be CSV, newline-delimited JSON, "
        "gzip, or a ZIP of these. Then open the page Cloud bills, assign the accounts, and "
        "record the export."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
        parser.add_argument(
            "--lab", help="short name of the lab, required if the server has several"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        paths: list[Path] = options["files"]
        try:
            size = sum(path.stat().st_size for path in paths)
            if size > MAX_UNPACKED_BYTES:
                raise CommandError(
                    f"The files have more than {MAX_UNPACKED_BYTES >> 30} GiB. "
                    "Export one month or one account at a time."
                )
            file = upload(
                lab=selected_lab(options["lab"]),
                files=[UploadedFile(path.name, _chunks(path)) for path in paths],
                by=None,
                now=now_us(),
            )
        except OSError as error:
            raise CommandError(f"Cannot read {error.filename}: {error.strerror}") from error
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint or ''}".strip()) from error
        address = reverse("billing-file", args=[file.uuid])
        self.stdout.write(f"Uploaded {file.bytes} bytes. Assign its accounts on {address}")


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
