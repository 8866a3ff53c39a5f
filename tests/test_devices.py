import pytest

from proxy.devices import DEVICES, GB, device


def test_every_device_has_a_name_of_its_own_a_plausible_bandwidth_and_a_source() -> None:
    assert len({one.name.lower() for one in DEVICES}) == len(DEVICES)
    for one in DEVICES:
        assert 50 * GB <= one.bandwidth <= 10_000 * GB, one.name
        assert len(one.source) > 10, one.name


@pytest.mark.parametrize("one", DEVICES, ids=lambda one: one.name)
def test_every_device_is_found_by_its_name(one: object) -> None:
    assert device(one.name) == one  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["H100 SXM", "h100-sxm", "NVIDIA H100 SXM", "nvidia_h100_sxm", "H100SXM"]
)
def test_case_blanks_hyphens_and_the_maker_do_not_matter(name: str) -> None:
    assert device(name).bandwidth == 3350 * GB


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [("GeForce RTX 4090", 1008), ("Apple M4 Max 16-core", 546), ("AMD Instinct MI300X", 5300)],
)
def test_names_as_their_makers_write_them(name: str, gigabytes: int) -> None:
    assert device(name).bandwidth == gigabytes * GB


def test_a_name_of_several_devices_is_refused_with_all_of_them() -> None:
    with pytest.raises(ValueError) as refusal:
        device("A100")
    assert str(refusal.value) == (
        "'A100' is more than one device: give A100 40GB or A100 80GB SXM or A100 80GB PCIe"
    )


def test_a_name_that_begins_like_others_is_that_device_all_the_same() -> None:
    assert device("M3").name == "M3"
    assert device("L4").name == "L4"


def test_an_unknown_name_is_refused_with_the_nearest_or_with_what_else_to_give() -> None:
    with pytest.raises(ValueError, match=r"'RTX 4099' is no device .*: did you mean RTX 4090"):
        device("RTX 4099")
    for name in ("abacus", "", "NVIDIA"):
        with pytest.raises(ValueError, match="give its bandwidth, such as 150GB/s"):
            device(name)
