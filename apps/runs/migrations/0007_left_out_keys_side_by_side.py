"""Keys with a parameter left out follow another rule; a job makes those that are stored anew, under new numbers."""

from django.db import migrations, models

_TIERS = [
    (10, "the same work"),
    (11, "the same work, as far as names, sizes and times tell"),
    (15, "the same work but for comments and format"),
    (16, "the same but for comments and format, as far as names, sizes and times tell"),
    (20, "another seed"),
    (21, "another seed, as far as names, sizes and times tell"),
    (30, "the same recipe, other code"),
    (31, "the same recipe, other code, as far as names, sizes and times tell"),
    (40, "the same family"),
    (41, "the same family, as far as names, sizes and times tell"),
    (55, "differs in one parameter at most"),
    (56, "differs in one parameter at most, as far as names, sizes and times tell"),
]
_ASK = (
    "INSERT INTO core_job (kind, key, requested, done, due_us, leased_until_us, leased_by, attempts, last_error)"
    " SELECT 'runs.rekey', CAST(id AS VARCHAR(20)), 1, 0, 0, 0, '', 0, '' FROM accounts_lab"
    " WHERE id IN (SELECT lab_id FROM runs_run) ON CONFLICT DO NOTHING"
)


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_keys_of_runs_without_ids"), ("core", "0002_floor_div")]

    operations = [
        migrations.AlterField(model_name="tierkey", name="tier", field=models.SmallIntegerField(choices=_TIERS)),
        migrations.RunSQL(_ASK, migrations.RunSQL.noop, elidable=True),
    ]
