import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("artifacts", "0002_retention_from_file_time")]

    operations = [
        migrations.AddField(
            model_name="copy",
            name="own_bytes",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="copy",
            index=models.Index(
                condition=models.Q(("own_bytes__isnull", False)),
                fields=["lab"],
                name="copy_sharing_files",
            ),
        ),
        migrations.AddConstraint(
            model_name="copy",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("own_bytes__isnull", True), ("own_bytes__gte", 0), _connector="OR"
                ),
                name="copy_own_bytes_not_negative",
            ),
        ),
        migrations.CreateModel(
            name="SharedBytes",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64)),
                ("bytes", models.BigIntegerField()),
                ("copies", models.IntegerField(blank=True, null=True)),
                (
                    "copy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="shared_bytes",
                        to="artifacts.copy",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["key"], name="shared_bytes_by_key")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("copy", "key"), name="shared_bytes_once_per_copy"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("bytes__gte", 0)), name="shared_bytes_not_negative"
                    ),
                ],
            },
        ),
    ]
