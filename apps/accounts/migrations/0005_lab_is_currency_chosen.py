from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0004_lab_has_erased_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="lab",
            name="is_currency_chosen",
            field=models.BooleanField(default=False),
        ),
    ]
