"""Reads MLflow servers now, in the foreground."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from apps.trackers.mlflow.models import MlflowSource
from apps.trackers.mlflow.services.poller import poll_source

PAUSE_S = 5.0


class Command(BaseCommand):
    help = (
        "Poll the enabled MLflow servers and print the result. The worker of the server also "
        "polls every minute, which does "
        "no harm. Without --once, polling continues until interrupted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--source", help="name or address of one server (default: all servers)")
        parser.add_argument(
            "--once", action="store_true", help="poll once and exit; exit code 1 after a failure"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            while True:
                failed = [
                    source for source in self._sources(options["source"]) if not self._poll(source)
                ]
                if options["once"]:
                    break
                time.sleep(PAUSE_S)
        except KeyboardInterrupt:
            return
        if failed:
            raise CommandError(f"{len(failed)} server{'' if len(failed) == 1 else 's'} failed.")

    def _sources(self, name: str | None) -> list[MlflowSource]:
        enabled = (
            MlflowSource.objects.select_related("lab", "node", "project")
            .filter(enabled=True, removed_us=None)
            .order_by("pk")
        )
        selected = [source for source in enabled if name in (None, source.name, source.address)]
        if not selected:
            known = ", ".join(source.name for source in enabled)
            raise CommandError(
                f"There is no enabled server {name!r}. Known: {known}."
                if known
                else f"No MLflow server is enabled: see {reverse('mlflow-servers')}."
            )
        return selected

    def _poll(self, source: MlflowSource) -> bool:
        runs, more = 0, True
        while more:  # until all is read
            done = poll_source(source=source)
            runs, more = runs + done.runs, done.more
        self.stdout.write(f"{source.name}: {done.problem or f'{runs} new or changed runs'}")
        return not done.problem
