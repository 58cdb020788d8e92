"""Names out of the audit log: a table of names, and each log chained once again with references."""

import time
from typing import Any

import django.db.models.deletion
from django.db import migrations, models

from apps.accounts.person_names import NameReferences, names_in_entry
from apps.accounts.rechain import rechain


def replace_names(apps: Any, schema_editor: Any) -> None:
    entry_model = apps.get_model("accounts", "AuditEntry")
    now = time.time_ns() // 1000
    for lab in apps.get_model("accounts", "Lab").objects.order_by("pk"):
        references = NameReferences(
            apps.get_model("accounts", "PersonName"), lab.pk, _account_names(apps, lab)
        )

        def change(row: Any, references: NameReferences = references) -> bool:
            before = (row.actor, row.subject, row.details)
            names = names_in_entry(
                actor=row.actor, action=row.action, subject=row.subject, details=row.details
            )
            row.actor, row.subject, row.details = (references.refer(part, names) for part in before)
            return before != (row.actor, row.subject, row.details)

        rechain(entry_model, lab, change, now)


def _account_names(apps: Any, lab: Any) -> list[str]:
    """Return the names of members, and of former ones who are in the log."""
    users = apps.get_model("accounts", "AuditEntry").objects.filter(lab=lab, user__isnull=False)
    accounts = apps.get_model("accounts", "User").objects.filter(
        models.Q(memberships__lab=lab) | models.Q(pk__in=users.values("user_id"))
    )
    return [
        name
        for username, first, last, email in accounts.distinct().values_list(
            "username", "first_name", "last_name", "email"
        )
        for name in (username, f"{first} {last}".strip(), email)
        if name
    ]


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_costs")]

    operations = [
        migrations.CreateModel(
            name="PersonName",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.TextField()),
                ("is_name", models.BooleanField(default=True)),
                (
                    "lab",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.lab",
                    ),
                ),
            ],
        ),
        migrations.RunPython(replace_names, migrations.RunPython.noop),
    ]
