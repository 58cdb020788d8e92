"""The first migration of assets: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("assets", "0001_initial"),
        ("assets", "0002_dismissed"),
        ("assets", "0003_kept_books"),
        ("assets", "0001_squashed_0003"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_v1"),
        ("catalog", "0001_v1"),
        ("fleet", "0001_v1"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Asset",
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
                                    ("gpu", "GPU"),
                                    ("cpu", "CPU"),
                                    ("server", "Server"),
                                    ("workstation", "Workstation or desktop"),
                                    ("laptop", "Laptop"),
                                    ("storage", "Storage"),
                                    ("network", "Network"),
                                    ("monitor", "Monitor"),
                                    ("other", "Other"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("serial", models.CharField(blank=True, default="", max_length=120)),
                        ("tag", models.CharField(blank=True, default="", max_length=60)),
                        ("supplier", models.CharField(blank=True, default="", max_length=200)),
                        ("price_ucurrency", models.BigIntegerField(blank=True, null=True)),
                        ("currency", models.CharField(blank=True, default="", max_length=3)),
                        ("warranty_until", models.DateField(blank=True, null=True)),
                        ("location", models.CharField(blank=True, default="", max_length=200)),
                        ("note", models.CharField(blank=True, default="", max_length=1000)),
                        ("added_us", models.BigIntegerField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("stock", "In stock"),
                                    ("use", "In use"),
                                    ("lent", "Lent"),
                                    ("retired", "Out of use"),
                                    ("disposed", "Disposed of"),
                                ],
                                default="stock",
                                max_length=10,
                            ),
                        ),
                        (
                            "added_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "borrower",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="assets",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "model",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="assets",
                                to="catalog.hardwaremodel",
                            ),
                        ),
                        (
                            "owner",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="assets",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="parts",
                                to="assets.asset",
                            ),
                        ),
                        (
                            "site",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="assets",
                                to="fleet.site",
                            ),
                        ),
                        (
                            "embodied_total_ug",
                            models.BigIntegerField(blank=True, db_column="brought_ug", null=True),
                        ),
                        (
                            "embodied_low_ug",
                            models.BigIntegerField(db_column="brought_low_ug", default=0),
                        ),
                        (
                            "embodied_high_ug",
                            models.BigIntegerField(db_column="brought_high_ug", default=0),
                        ),
                        (
                            "embodied_at_least",
                            models.BooleanField(db_column="brought_at_least", default=False),
                        ),
                        (
                            "figure",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.embodiedfigure",
                            ),
                        ),
                        ("bought_hour", models.BigIntegerField(blank=True, null=True)),
                        ("in_use_hour", models.BigIntegerField(blank=True, null=True)),
                        ("life_end_hour", models.BigIntegerField(blank=True, null=True)),
                        (
                            "disposed_hour",
                            models.BigIntegerField(blank=True, db_column="gone_hour", null=True),
                        ),
                        (
                            "complete_until_hour",
                            models.BigIntegerField(db_column="told_to_hour", default=0),
                        ),
                        ("settled_hour", models.BigIntegerField(default=0)),
                        ("settled_ug", models.BigIntegerField(default=0)),
                        (
                            "written_off_to_date_ug",
                            models.BigIntegerField(db_column="settled_off_ug", default=0),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("name", ""), _negated=True),
                                name="asset_has_a_name",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("price_ucurrency__isnull", True),
                                    models.Q(
                                        ("price_ucurrency__gte", 0),
                                        models.Q(("currency", ""), _negated=True),
                                    ),
                                    _connector="OR",
                                ),
                                name="asset_price_has_a_currency",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("tag", ""), _negated=True),
                                fields=("lab", "tag"),
                                name="asset_tag_once_per_lab",
                            ),
                        ],
                        "indexes": [
                            models.Index(fields=["lab", "kind", "state"], name="assets_of_lab"),
                            models.Index(
                                condition=models.Q(("serial", ""), _negated=True),
                                fields=["lab", "serial"],
                                name="assets_by_serial",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DeviceDay",
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
                        ("to_hour", models.BigIntegerField()),
                        ("measured_ms", models.BigIntegerField()),
                        ("parts", models.JSONField(default=list)),
                        (
                            "device",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="fleet.device",
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, to="fleet.node"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("device", "node", "from_hour"), name="device_day_once"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("to_hour__gt", models.F("from_hour"))),
                                name="device_day_not_empty",
                            ),
                        ],
                        "indexes": [
                            models.Index(fields=["lab", "from_hour"], name="device_days_of_lab")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="StoredVolume",
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
                        ("gigabytes", models.BigIntegerField()),
                        (
                            "asset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="volumes",
                                to="assets.asset",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
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
                            models.UniqueConstraint(
                                condition=models.Q(("withdrawn_us__isnull", True)),
                                fields=("asset", "project", "from_hour"),
                                name="volume_once_per_hour",
                                nulls_distinct=False,
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("gigabytes__gte", 0)),
                                name="volume_not_negative",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("from_hour__gte", 0)),
                                name="volume_not_before_time",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DismissedProposal",
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
                        ("dismissed_us", models.BigIntegerField()),
                        (
                            "device",
                            models.OneToOneField(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="fleet.device",
                            ),
                        ),
                        (
                            "dismissed_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "node",
                            models.OneToOneField(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="fleet.node",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("device__isnull", True), ("node__isnull", False)),
                                    models.Q(("device__isnull", False), ("node__isnull", True)),
                                    _connector="OR",
                                ),
                                name="dismissed_is_one",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RegisterImport",
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
                        ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                        ("file_name", models.CharField(max_length=200)),
                        ("content", models.TextField()),
                        ("options", models.JSONField(default=dict)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("reading", "Reading"),
                                    ("read", "Preview"),
                                    ("writing", "Registering"),
                                    ("done", "Registered"),
                                    ("refused", "Rejected"),
                                ],
                                default="reading",
                                max_length=8,
                            ),
                        ),
                        ("lines_done", models.IntegerField(default=0)),
                        ("lines", models.IntegerField()),
                        ("summary", models.JSONField(db_column="told", default=dict)),
                        ("created_us", models.BigIntegerField(db_column="made_us")),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                db_column="made_by_id",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["lab", "created_us"], name="imports_of_lab")
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("lines__gte", 0)), name="import_has_lines"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EmbodiedCharge",
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
                        ("to_hour", models.BigIntegerField()),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("used", "Used"),
                                    ("idle", "On and idle"),
                                    ("idle_share", "Share of idle time"),
                                    ("unmeasured", "Off or not measured"),
                                    ("held", "By time, without meter"),
                                    ("lent", "Lent"),
                                    ("end_of_life", "Difference at end of life"),
                                    ("written_off", "Written off"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("amount_ug", models.BigIntegerField()),
                        (
                            "asset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="charges",
                                to="assets.asset",
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("asset", "from_hour", "to_hour", "kind", "project"),
                                name="embodied_charge_once",
                                nulls_distinct=False,
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("to_hour__gt", models.F("from_hour"))),
                                name="embodied_charge_not_empty",
                            ),
                        ],
                        "indexes": [
                            models.Index(
                                fields=["lab", "to_hour", "from_hour"],
                                name="embodied_charges_of_lab",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LifecycleEvent",
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
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("purchase", "Purchased"),
                                    ("second_hand", "Purchased second-hand"),
                                    ("deploy", "Put into use"),
                                    ("move", "Moved"),
                                    ("transfer", "Changed owner"),
                                    ("repurpose", "Repurposed"),
                                    ("repair", "Repaired or refurbished"),
                                    ("upgrade", "Upgraded"),
                                    ("life_change", "Planned life changed"),
                                    ("lend", "Lent"),
                                    ("return", "Returned"),
                                    ("retire", "Taken out of use"),
                                    ("dispose", "Disposed of"),
                                    ("reversal", "Event reversed"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("hour", models.BigIntegerField()),
                        ("total_ug", models.BigIntegerField(blank=True, null=True)),
                        ("low_ug", models.BigIntegerField(blank=True, null=True)),
                        ("high_ug", models.BigIntegerField(blank=True, null=True)),
                        ("manufacture_ug", models.BigIntegerField(blank=True, null=True)),
                        ("transport_ug", models.BigIntegerField(blank=True, null=True)),
                        ("end_of_life_ug", models.BigIntegerField(blank=True, null=True)),
                        ("includes_end_of_life", models.BooleanField(blank=True, null=True)),
                        ("source", models.CharField(blank=True, default="", max_length=500)),
                        ("life_hours", models.BigIntegerField(blank=True, null=True)),
                        ("life_end_hour", models.BigIntegerField(blank=True, null=True)),
                        (
                            "amortisation",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("linear", "By time"),
                                    ("sci", "By use (SCI)"),
                                ],
                                default="",
                                max_length=8,
                            ),
                        ),
                        ("counterpart", models.CharField(blank=True, default="", max_length=200)),
                        ("evidence", models.CharField(blank=True, default="", max_length=300)),
                        ("note", models.CharField(blank=True, default="", max_length=500)),
                        ("recorded_us", models.BigIntegerField()),
                        (
                            "asset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="events",
                                to="assets.asset",
                            ),
                        ),
                        (
                            "figure",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.embodiedfigure",
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="assets.asset",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "recorded_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "reverses",
                            models.OneToOneField(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="reversed_by",
                                to="assets.lifecycleevent",
                            ),
                        ),
                        (
                            "site",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="fleet.site",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("hour__gte", 0)), name="event_not_before_time"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("total_ug__isnull", True),
                                    ("total_ug__gte", 0),
                                    _connector="OR",
                                ),
                                name="event_total_not_negative",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("end_of_life_ug__isnull", True),
                                    ("total_ug__isnull", False),
                                    _connector="OR",
                                ),
                                name="event_part_has_a_whole",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("kind", "reversal"), ("reverses__isnull", False)),
                                    models.Q(
                                        models.Q(("kind", "reversal"), _negated=True),
                                        ("reverses__isnull", True),
                                    ),
                                    _connector="OR",
                                ),
                                name="event_reverses_if_reversal",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("life_hours__isnull", True),
                                    ("life_hours__gt", 0),
                                    _connector="OR",
                                ),
                                name="event_life_not_empty",
                            ),
                        ],
                        "indexes": [
                            models.Index(fields=["asset", "hour"], name="events_of_asset"),
                            models.Index(
                                condition=models.Q(("total_ug__isnull", False)),
                                fields=["hour"],
                                name="events_that_bring",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AssetMeter",
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
                        (
                            "asset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="meters",
                                to="assets.asset",
                            ),
                        ),
                        (
                            "device",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="asset_meters",
                                to="fleet.device",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="asset_meters",
                                to="fleet.node",
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
                            models.UniqueConstraint(
                                condition=models.Q(("withdrawn_us__isnull", True)),
                                fields=("asset", "from_hour"),
                                name="asset_meter_once_per_hour",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("device__isnull", True),
                                    ("node__isnull", True),
                                    _connector="OR",
                                ),
                                name="asset_meter_is_one",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("from_hour__gte", 0)),
                                name="asset_meter_not_before_time",
                            ),
                        ],
                    },
                ),
            ]
        ),
    ]
