from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0002_config_version_row'),
    ]

    operations = [
        migrations.AddField(
            model_name='gatewaykey',
            name='old_digest',
            field=models.CharField(blank=True, default='', editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name='gatewaykey',
            name='old_last4',
            field=models.CharField(blank=True, default='', editable=False, max_length=4, verbose_name='last four of the old secret'),
        ),
        migrations.AddField(
            model_name='gatewaykey',
            name='old_until',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='old secret works until'),
        ),
        migrations.AlterField(
            model_name='alert',
            name='kind',
            field=models.CharField(choices=[('key_dead', 'upstream key dead'), ('new_secret', 'new secret refused, old one in use'), ('no_balance', 'account out of balance'), ('quota', 'quota used up'), ('low_pool', 'few usable keys left'), ('error_rate', 'many failures'), ('unpriced', 'model without a price'), ('budget', 'budget threshold'), ('forecast', 'money runs out inside the period'), ('mail', 'mail is not set up'), ('recording', 'records cannot be written')], max_length=20, verbose_name='kind'),
        ),
    ]
