import pytest

from proxy.core.ending import End, Ending
from proxy.core.errors import Code, Fault

FAULT = Fault(Code.UPSTREAM_FAILED, "x")
WAYS = {End.FINISHED: Ending.finish, End.FAILED: lambda ending: ending.fail(FAULT), End.CANCELLED: Ending.cancel}


@pytest.mark.parametrize("first", End)
@pytest.mark.parametrize("second", End)
def test_the_first_ending_counts(first, second):
    ending = Ending()
    assert WAYS[first](ending) is True
    assert WAYS[second](ending) is False
    assert ending.end is first
    assert ending.fault is (FAULT if first is End.FAILED else None)
