"""Uploads for a running demo, once a minute: what collectors do for a real lab."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from labcarbon.demo.marks import GENERATED

INTERVAL_S, DELAY_S = 60, 2  # after the end of a minute


def main() -> None:
    """Upload until the process is terminated. After a pause, first what was not uploaded in it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
    import django

    django.setup()
    from django.conf import settings

    from apps.core.clock import now_us
    from labcarbon.demo.generator import upload_recent
    from labcarbon.demo.plan import Calendar

    facts = json.loads((Path(settings.DATA_DIR) / GENERATED).read_text(encoding="utf-8"))
    until = datetime.strptime(facts["until"], "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC)
    calendar = Calendar(int(until.timestamp()) // 3600)
    seed, multiplier = facts["seed"], facts["multiplier"]
    while True:
        upload_recent(calendar=calendar, now=now_us(), seed=seed, multiplier=multiplier)
        time.sleep(INTERVAL_S - time.time() % INTERVAL_S + DELAY_S)


if __name__ == "__main__":
    main()
