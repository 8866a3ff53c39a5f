import pytest

from proxy.layers import laid
from proxy.settings import SettingError

WAYS = (("size",), ("parameters", "bits"))


def test_the_later_layer_counts() -> None:
    assert laid(WAYS, {"devices": 1, "size": 3}, {"devices": 2}) == {"devices": 2, "size": 3}


def test_off_in_a_later_layer_takes_back_what_an_earlier_one_gave() -> None:
    assert laid(WAYS, {"size": 3}, {"size": None}) == {"size": None}


def test_a_thing_that_is_said_in_another_way_takes_back_the_first() -> None:
    assert laid(WAYS, {"size": 3, "devices": 2}, {"parameters": 7, "bits": 16}) == {
        "parameters": 7,
        "bits": 16,
        "devices": 2,
    }
    assert laid(WAYS, {"parameters": 7, "bits": 16}, {"size": 3}) == {"size": 3}


def test_parts_of_one_way_can_come_from_two_layers() -> None:
    assert laid(WAYS, {"bits": 16}, {"parameters": 7}) == {"bits": 16, "parameters": 7}


def test_off_is_no_way_of_saying_it() -> None:
    assert laid(WAYS, {"size": None, "bits": 4}) == {"size": None, "bits": 4}


def test_two_ways_in_one_layer_are_an_error_that_names_both() -> None:
    with pytest.raises(SettingError) as refusal:
        laid(WAYS, {}, {"size": 3, "bits": 16})
    assert str(refusal.value) == "size and bits say the same thing: leave one of them out"
