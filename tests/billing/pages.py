"""Cloud bills on their pages."""

import re

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.core.jobs import run_until_idle
from tests.dashboard.support import text_of

LIST = "/billing/"


def uploaded(client: Client, *contents: bytes) -> str:
    """Upload an export on its page; return its address."""
    files = [SimpleUploadedFile(f"export-{i}.csv", each) for i, each in enumerate(contents)]
    answer = client.post(LIST, {"files_of_export": files})
    assert answer.status_code == 302, text_of(answer)
    run_until_idle(worker="test")
    return str(answer["Location"])


def assigned(client: Client, address: str, **changes: str) -> None:
    """Assign accounts and tags as proposed."""
    answer = client.get(address, follow=True)
    assert answer.redirect_chain[-1][0].endswith("/accounts/")
    fields = re.findall(r'<select name="(\w+)"(.*?)</select>', text_of(answer), re.DOTALL)
    values = {}
    for name, options in fields:
        chosen = re.search(r'value="([^"]*)" selected', options)
        values[name] = chosen[1] if chosen else ""
    for name in re.findall(r'type="checkbox" name="(\w+)"[^>]*checked', text_of(answer)):
        values[name] = "on"
    values["utilization"] = "50"
    posted = client.post(f"{address}accounts/", values | changes)
    assert posted.status_code == 302, text_of(posted)
    run_until_idle(worker="test")
