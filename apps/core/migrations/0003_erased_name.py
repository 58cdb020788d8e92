from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("core", "0002_table_check")]

    operations = [
        migrations.CreateModel(
            name="ErasedName",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("lab_id", models.BigIntegerField()),
                ("number", models.IntegerField()),
                ("position", models.IntegerField()),
                ("words", models.IntegerField()),
                ("in_texts", models.BooleanField()),
                ("pepper", models.PositiveSmallIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("erased_us", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("lab_id", "digest"), name="erased_name_once_per_lab"
                    )
                ]
            },
        ),
    ]
