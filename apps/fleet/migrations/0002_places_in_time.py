"""The zone of a site becomes a dated history, prices come in, and a dated fact ends where the next begins.

Placements so far are one per node, open from hour 0 on: no end is lost.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

ZONES_BECOME_HISTORIES = (
    "INSERT INTO fleet_sitezone (site_id, from_hour, zone) SELECT id, 0, zone FROM fleet_site WHERE zone <> ''"
)
LATEST_ZONES = """
UPDATE fleet_site SET zone = COALESCE((SELECT z.zone FROM fleet_sitezone z WHERE z.site_id = fleet_site.id
AND z.withdrawn_us IS NULL ORDER BY z.from_hour DESC LIMIT 1), '')
"""
WITHDRAWN = [
    "DELETE FROM fleet_sitepue WHERE withdrawn_us IS NOT NULL",
    "DELETE FROM fleet_placement WHERE withdrawn_us IS NOT NULL",
]
ENDS = """
UPDATE fleet_placement SET to_hour = (SELECT MIN(n.from_hour) FROM fleet_placement n
WHERE n.node_id = fleet_placement.node_id AND n.from_hour > fleet_placement.from_hour)
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_initial"),
        ("fleet", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="EnrolmentPlace",
            fields=[
                (
                    "code",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="place",
                        serialize=False,
                        to="accounts.onetimecode",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SitePrice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("from_hour", models.BigIntegerField()),
                ("recorded_us", models.BigIntegerField(blank=True, null=True)),
                ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                ("ucurrency_per_kwh", models.BigIntegerField()),
                ("currency", models.CharField(max_length=3)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("from_hour__gte", 0)), name="price_not_before_time"),
                    models.CheckConstraint(condition=models.Q(("ucurrency_per_kwh__gte", 0)), name="price_not_negative"),
                    models.CheckConstraint(condition=models.Q(("currency", ""), _negated=True), name="price_has_a_currency"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SiteZone",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("from_hour", models.BigIntegerField()),
                ("recorded_us", models.BigIntegerField(blank=True, null=True)),
                ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                ("zone", models.CharField(max_length=40)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("from_hour__gte", 0)), name="zone_not_before_time"),
                    models.CheckConstraint(condition=models.Q(("zone", ""), _negated=True), name="zone_not_empty"),
                ],
            },
        ),
        migrations.RemoveConstraint(
            model_name="placement",
            name="placement_not_empty",
        ),
        migrations.RemoveConstraint(
            model_name="placement",
            name="one_open_placement_per_node",
        ),
        migrations.RemoveConstraint(
            model_name="sitepue",
            name="pue_once_per_hour",
        ),
        migrations.AddField(
            model_name="placement",
            name="recorded_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="placement",
            name="recorded_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="placement",
            name="withdrawn_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="placement",
            name="withdrawn_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="sitepue",
            name="recorded_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="sitepue",
            name="recorded_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="sitepue",
            name="withdrawn_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="sitepue",
            name="withdrawn_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="placement",
            constraint=models.UniqueConstraint(
                condition=models.Q(("withdrawn_us__isnull", True)),
                fields=("node", "from_hour"),
                name="placement_once_per_hour",
            ),
        ),
        migrations.AddConstraint(
            model_name="placement",
            constraint=models.CheckConstraint(condition=models.Q(("from_hour__gte", 0)), name="placement_not_before_time"),
        ),
        migrations.AddConstraint(
            model_name="sitepue",
            constraint=models.UniqueConstraint(
                condition=models.Q(("withdrawn_us__isnull", True)), fields=("site", "from_hour"), name="pue_once_per_hour"
            ),
        ),
        migrations.AddConstraint(
            model_name="sitepue",
            constraint=models.CheckConstraint(condition=models.Q(("from_hour__gte", 0)), name="pue_not_before_time"),
        ),
        migrations.AddField(
            model_name="enrolmentplace",
            name="site",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="fleet.site"),
        ),
        migrations.AddField(
            model_name="siteprice",
            name="recorded_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="siteprice",
            name="site",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="prices", to="fleet.site"),
        ),
        migrations.AddField(
            model_name="siteprice",
            name="withdrawn_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="sitezone",
            name="recorded_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="sitezone",
            name="site",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="zones", to="fleet.site"),
        ),
        migrations.AddField(
            model_name="sitezone",
            name="withdrawn_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="siteprice",
            constraint=models.UniqueConstraint(
                condition=models.Q(("withdrawn_us__isnull", True)), fields=("site", "from_hour"), name="price_once_per_hour"
            ),
        ),
        migrations.AddConstraint(
            model_name="sitezone",
            constraint=models.UniqueConstraint(
                condition=models.Q(("withdrawn_us__isnull", True)), fields=("site", "from_hour"), name="zone_once_per_hour"
            ),
        ),
        migrations.RunSQL(ZONES_BECOME_HISTORIES, LATEST_ZONES, elidable=True),
        migrations.RunSQL(migrations.RunSQL.noop, ENDS, elidable=True),
        migrations.RunSQL(migrations.RunSQL.noop, WITHDRAWN, elidable=True),
        migrations.RemoveField(model_name="placement", name="to_hour"),
        migrations.RemoveField(model_name="site", name="zone"),
    ]
