"""Jobs of billing exports."""

from uuid import UUID

from apps.billing.services import file_contents, month_versions, uploads
from apps.core.clock import now_us
from apps.core.jobs import DAY_US, enqueue, job, periodic_job

TURN_US = 20_000_000  # of one run, so that other jobs have their turn


@job(uploads.SCAN)
def scan_file_job(key: str) -> None:
    """Find the accounts and tags of export ``key``."""
    file_contents.scan_file(uuid=UUID(key))


@job(uploads.READ)
def read_file_job(key: str) -> None:
    """Sum the lines of export ``key``. Nothing is recorded."""
    file_contents.read_file(uuid=UUID(key), now=now_us())


@job(uploads.RECORD)
def record_file_job(key: str) -> None:
    """Record export ``key`` in batches, from where it was interrupted."""
    turn_end_us = now_us() + TURN_US
    for _ in month_versions.record_batches(uuid=UUID(key), now=now_us()):
        if now_us() >= turn_end_us:
            enqueue(kind=uploads.RECORD, key=key)
            return


@job(uploads.REVIEW)
def review_file_job(key: str) -> None:
    """Count days of export ``key`` that ended since, and leave out hours that a collector measured
    since.
    """
    turn_end_us = now_us() + TURN_US
    for _ in month_versions.review_file(uuid=UUID(key), now=now_us()):
        if now_us() >= turn_end_us:
            enqueue(kind=uploads.REVIEW, key=key)
            return


@periodic_job("billing.review_months")
def review_months_job() -> int:
    """Review the months of recorded exports, and delete those that nobody confirmed."""
    month_versions.delete_expired_files(now=now_us())
    for uuid in month_versions.files_to_review(now_us()):
        enqueue(kind=uploads.REVIEW, key=str(uuid))
    return now_us() + DAY_US
