from itertools import groupby

from django.db import migrations


def settle(apps, _schema_editor):
    """Number members and rules 0, 1, 2 … in the order in which they stood."""
    for name, owner in (("GroupMember", "group_id"), ("RoutingRule", "route_id")):
        rows = apps.get_model("routing", name)._default_manager
        ordered = rows.order_by(owner, "position", "pk").values_list(owner, "pk", "position")
        for _owner, group in groupby(ordered, key=lambda row: row[0]):
            for place, (_group, pk, position) in enumerate(group):
                if position != place:
                    rows.filter(pk=pk).update(position=place)


class Migration(migrations.Migration):
    dependencies = [("routing", "0002_rule_enabled")]

    operations = [migrations.RunPython(settle, migrations.RunPython.noop)]
