"""The first migration of fleet: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("fleet", "0001_initial"),
        ("fleet", "0002_places_in_time"),
        ("fleet", "0003_control_of_sites"),
        ("fleet", "0001_squashed_0003"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_v1"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Node",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("uuid", models.UUIDField(unique=True)),
                        ("hostname", models.CharField(max_length=255)),
                        ("static_power_mw", models.BigIntegerField(blank=True, null=True)),
                        ("virtual", models.BooleanField(default=False)),
                        ("facts", models.JSONField(blank=True, default=dict)),
                        ("enrolled_us", models.BigIntegerField()),
                        ("last_push_us", models.BigIntegerField(blank=True, null=True)),
                        ("skew_us", models.BigIntegerField(blank=True, null=True)),
                        ("health", models.JSONField(blank=True, default=dict)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="nodes",
                                to="accounts.lab",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("static_power_mw__isnull", True),
                                    ("static_power_mw__gte", 0),
                                    _connector="OR",
                                ),
                                name="static_power_not_negative",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Site",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("name", models.CharField(max_length=200)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("workstation", "Office workstation"),
                                    ("machine_room", "Machine room"),
                                    ("data_centre", "Data centre"),
                                    ("declared", "Elsewhere (declared)"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="sites",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "control",
                            models.CharField(
                                choices=[
                                    ("own", "Own site"),
                                    (
                                        "inside_boundary",
                                        "Other owner, inside the reporting boundary",
                                    ),
                                    (
                                        "outside_boundary",
                                        "Other owner, outside the reporting boundary",
                                    ),
                                    ("cloud", "Cloud provider"),
                                ],
                                default="own",
                                max_length=16,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "name"), name="site_name_once_per_lab"
                            )
                        ],
                    },
                ),
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
                        (
                            "site",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="fleet.site",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="SitePrice",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("from_hour", models.BigIntegerField()),
                        ("recorded_us", models.BigIntegerField(blank=True, null=True)),
                        ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                        ("ucurrency_per_kwh", models.BigIntegerField()),
                        ("currency", models.CharField(max_length=3)),
                        (
                            "recorded_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "site",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="prices",
                                to="fleet.site",
                            ),
                        ),
                        (
                            "withdrawn_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("from_hour__gte", 0)),
                                name="price_not_before_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("ucurrency_per_kwh__gte", 0)),
                                name="price_not_negative",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("currency", ""), _negated=True),
                                name="price_has_a_currency",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("withdrawn_us__isnull", True)),
                                fields=("site", "from_hour"),
                                name="price_once_per_hour",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SiteZone",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("from_hour", models.BigIntegerField()),
                        ("recorded_us", models.BigIntegerField(blank=True, null=True)),
                        ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                        ("zone", models.CharField(max_length=40)),
                        (
                            "recorded_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "site",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="zones",
                                to="fleet.site",
                            ),
                        ),
                        (
                            "withdrawn_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("from_hour__gte", 0)),
                                name="zone_not_before_time",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("zone", ""), _negated=True),
                                name="zone_not_empty",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("withdrawn_us__isnull", True)),
                                fields=("site", "from_hour"),
                                name="zone_once_per_hour",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Device",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("key", models.CharField(max_length=255)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("gpu", "GPU"),
                                    ("mig", "MIG instance"),
                                    ("cpu", "CPU package"),
                                    ("dram", "DRAM"),
                                    ("meter", "Node meter"),
                                    ("host", "Node overhead"),
                                    ("storage", "Storage"),
                                    ("declared", "Declared use"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("name", models.CharField(blank=True, default="", max_length=200)),
                        ("facts", models.JSONField(blank=True, default=dict)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="devices",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="devices",
                                to="fleet.node",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "key"), name="device_key_once_per_lab"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SitePue",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("from_hour", models.BigIntegerField()),
                        ("pue_ppm", models.BigIntegerField()),
                        ("note", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "site",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="pues",
                                to="fleet.site",
                            ),
                        ),
                        (
                            "recorded_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("recorded_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "withdrawn_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("pue_ppm__gte", 1000000)),
                                name="pue_at_least_one",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("withdrawn_us__isnull", True)),
                                fields=("site", "from_hour"),
                                name="pue_once_per_hour",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("from_hour__gte", 0)),
                                name="pue_not_before_time",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Placement",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("from_hour", models.BigIntegerField()),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="placements",
                                to="fleet.node",
                            ),
                        ),
                        (
                            "site",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="placements",
                                to="fleet.site",
                            ),
                        ),
                        (
                            "recorded_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("recorded_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "withdrawn_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("withdrawn_us__isnull", True)),
                                fields=("node", "from_hour"),
                                name="placement_once_per_hour",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("from_hour__gte", 0)),
                                name="placement_not_before_time",
                            ),
                        ],
                    },
                ),
            ]
        ),
    ]
