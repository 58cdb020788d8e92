"""Ledgers of before attribution: jobs of Slurm get their run, and every lab derives who is charged."""

from django.db import migrations


def ask(apps, schema_editor):
    from apps.ingest.calc import run_of

    consumers = apps.get_model("ingest", "Consumer")
    jobs = list(consumers.objects.filter(kind="job", run_uuid__isnull=True))
    for consumer in jobs:
        consumer.run_uuid = run_of(consumer.key)
    consumers.objects.bulk_update(jobs, ["run_uuid"], batch_size=500)
    job = apps.get_model("core", "Job")
    for lab in apps.get_model("accounts", "Lab").objects.all():
        job.objects.get_or_create(kind="energy.attribute_ledger", key=str(lab.pk), defaults={"requested": 1})


class Migration(migrations.Migration):
    dependencies = [
        ("energy", "0001_initial"),
        ("attribution", "0001_attribution"),
        ("runs", "0002_attribution"),
        ("ingest", "0001_initial"),
        ("core", "0002_floor_div"),
    ]

    operations = [migrations.RunPython(ask, migrations.RunPython.noop, elidable=True)]
