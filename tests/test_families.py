import pytest
from records import total, value

from proxy.families import Families


def test_families_are_collected_in_the_order_in_which_they_were_made() -> None:
    families = Families({})
    families._gauge("b", "", "B.")
    families._counter("a_total", "", "A.")
    families._histogram("c", "", "C.", [1.0])
    assert [one.name for one in families.collect()] == ["tokometer_b", "tokometer_a", "tokometer_c"]


def test_a_scope_prepares_the_families_that_have_just_its_labels() -> None:
    families = Families({})
    families._counter("a_total", "upstream model kind", "A.", [("x",), ("y",)])
    families._counter("b_total", "upstream", "B.")
    families._counter("c_total", "", "C.")
    families.complete()
    families.prepare("up", "m")
    found = families.collect()
    labels = {"upstream": "up", "model": "m"}
    assert value(found, "tokometer_a_total", **labels, kind="x") == 0
    assert value(found, "tokometer_a_total", **labels, kind="y") == 0
    assert value(found, "tokometer_b_total", upstream="up") is None
    assert value(found, "tokometer_c_total") == 0
    assert total(found, "tokometer_a_total") == 0


def test_an_override_of_bounds_must_be_for_one_of_them() -> None:
    families = Families({"c": [2.0], "d": [3.0]})
    assert families._histogram("c", "", "C.", [1.0]).bounds == (2.0,)
    with pytest.raises(ValueError, match=r"no histogram tokometer_d: did you mean tokometer_c\?$"):
        families.complete()
