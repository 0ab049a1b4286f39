import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0006_budget_reserved'),
    ]

    operations = [
        migrations.AlterField(
            model_name='storedanswer',
            name='line',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='stored_answers', to='tenants.businessline'),
        ),
    ]
