"""Keys of runs lose a number that nothing names: what they are looked up by is their primary key."""

import django.db.models.deletion
from django.db import migrations, models

_COLUMNS = "lab_id, run_id, tier, key"
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
    (50, "differs in one parameter at most"),
    (51, "differs in one parameter at most, as far as names, sizes and times tell"),
]


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_parents_and_lost_runs")]

    operations = [
        migrations.CreateModel(
            name="NewTierKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "lab", "tier", "key", "run", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tier", models.SmallIntegerField(choices=_TIERS)),
                ("key", models.BigIntegerField()),
                (
                    "lab",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="accounts.lab"
                    ),
                ),
                ("run", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run")),
            ],
        ),
        migrations.RunSQL(
            f"INSERT INTO runs_newtierkey ({_COLUMNS}) SELECT DISTINCT {_COLUMNS} FROM runs_tierkey"
            " ORDER BY lab_id, tier, key, run_id",
            f"INSERT INTO runs_tierkey ({_COLUMNS}) SELECT {_COLUMNS} FROM runs_newtierkey ORDER BY run_id, tier, key",
            elidable=True,
        ),
        migrations.DeleteModel(name="TierKey"),
        migrations.RenameModel(old_name="NewTierKey", new_name="TierKey"),
        migrations.AlterField(
            model_name="tierkey",
            name="run",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="tier_keys", to="runs.run"),
        ),
    ]
