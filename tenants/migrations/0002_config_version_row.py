"""The single row that counts configuration changes."""

from django.db import migrations


def create(apps, _schema_editor):
    apps.get_model("tenants", "ConfigVersion").objects.get_or_create(pk=1)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
