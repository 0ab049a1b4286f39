"""The same on SQLite: what stores every kind of row, moves secrets about, removes, and goes round."""

import pytest

from tests.config.declarative.test_apply import (
    test_a_second_time_nothing_changes,
    test_every_field_of_a_line_and_its_gateway_keys_is_stored,
    test_every_field_of_a_tenant_and_its_accounts_is_stored,
    test_every_field_of_an_upstream_and_its_keys_is_stored,
    test_every_field_of_groups_and_routes_is_stored,
    test_every_field_of_prices_rates_and_budgets_is_stored,
    test_nothing_is_written_when_anything_is_wrong,
    test_null_clears_a_field,
    test_secrets_can_change_places,
    test_the_default_route_can_move,
)
from tests.config.declarative.test_export import test_any_configuration_goes_round, test_what_comes_out_goes_back_in
from tests.config.declarative.test_prune import (
    test_a_bare_tenant_loses_everything_but_itself,
    test_a_price_that_a_record_used_is_neither_edited_nor_removed,
    test_a_secret_can_move_to_another_key_while_the_first_goes,
)
from tests.config.test_commands_people import test_rotate_secrets_uses_the_newest_key

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]

__all__ = [
    "test_a_bare_tenant_loses_everything_but_itself",
    "test_a_price_that_a_record_used_is_neither_edited_nor_removed",
    "test_a_second_time_nothing_changes",
    "test_a_secret_can_move_to_another_key_while_the_first_goes",
    "test_any_configuration_goes_round",
    "test_every_field_of_a_line_and_its_gateway_keys_is_stored",
    "test_every_field_of_a_tenant_and_its_accounts_is_stored",
    "test_every_field_of_an_upstream_and_its_keys_is_stored",
    "test_every_field_of_groups_and_routes_is_stored",
    "test_every_field_of_prices_rates_and_budgets_is_stored",
    "test_nothing_is_written_when_anything_is_wrong",
    "test_null_clears_a_field",
    "test_rotate_secrets_uses_the_newest_key",
    "test_secrets_can_change_places",
    "test_the_default_route_can_move",
    "test_what_comes_out_goes_back_in",
]
