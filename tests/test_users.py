"""Metrics by user: who gets a label, and what is counted for whom."""

from typing import Any

from prometheus_client.core import Metric
from records import begin, end, output, rejected, samples, total, value

from proxy.keeper import Keeper


class Rig:
    """A keeper that knows at most so many users."""

    def __init__(self, max_users: int | None = 2) -> None:
        self.keeper = Keeper(
            upstreams=["up"],
            max_models=3,
            stall_seconds=2.0,
            buckets={},
            log_path=None,
            max_users=max_users,
            clock=lambda: 100.0,
        )

    def take(self, *records: Any, connection: int = 1) -> None:
        self.keeper.take(connection, records)

    def collect(self) -> list[Metric]:
        return self.keeper.collect()

    def value(self, name: str, user: str) -> float | None:
        return value(self.collect(), f"tokometer_user_{name}", user=user)

    def requests(self) -> dict[str, float]:
        """Requests by user."""
        series = samples(self.collect()).get("tokometer_user_requests_total", {})
        return {dict(labels)["user"]: number for labels, number in series.items()}

    def overflow(self) -> float | None:
        return value(self.collect(), "tokometer_label_overflow_total", label="user")


def test_an_exchange_is_counted_for_its_user() -> None:
    rig = Rig()
    rig.take(begin(1, 10.0, user="ann"))
    assert rig.requests() == {}
    rig.take(output(1, 10.5, first_at=10.5, ttft_seconds=0.5, tokens=2))
    assert rig.value("time_to_first_token_seconds_count", "ann") == 1
    assert rig.value("output_tokens_total", "ann") == 2
    assert rig.value("requests_total", "ann") == 0
    rig.take(output(1, 11.0, tokens=5))
    assert rig.value("output_tokens_total", "ann") == 7
    speed: dict[str, Any] = {"decode_tokens_per_second": 10.0, "ttft_seconds": 0.5}
    rig.take(end(1, 11.0, user="ann", output_tokens=6, **speed))
    assert rig.value("requests_total", "ann") == 1
    assert rig.value("output_tokens_total", "ann") == 7  # what was too much is carried
    assert rig.value("time_to_first_token_seconds_count", "ann") == 1
    assert rig.value("decode_tokens_per_second_sum", "ann") == 10
    rig.take(begin(2, 12.0, user="ann"), end(2, 13.0, user="ann", output_tokens=4))
    assert rig.value("output_tokens_total", "ann") == 10


def test_users_add_up_to_what_all_got() -> None:
    rig = Rig(max_users=1)
    for id, user in enumerate(["ann", "bob", "", "ann", "cat"]):
        named = {"user": user} if user else {}
        rig.take(begin(id, 10.0, **named), output(id, 10.5, tokens=id + 1))
        rig.take(end(id, 11.0, output_tokens=id + 2, **named))
    assert rig.requests() == {"ann": 2, "other": 2, "unknown": 1}
    families = rig.collect()
    by_user = total(families, "tokometer_user_output_tokens_total")
    assert by_user == total(families, "tokometer_output_tokens_total") == 20


def test_a_name_becomes_a_label_only_after_a_2xx() -> None:
    rig = Rig()
    for id in range(10_000):
        name = f"invented-{id}"
        rig.take(begin(id, float(id), user=name), rejected(id, id + 0.5, user=name))
    assert rig.requests() == {"unknown": 10_000}
    assert rig.overflow() == 0
    rig.take(begin(1, 12.0, user="ann"), end(1, 13.0, user="ann"))
    rig.take(begin(2, 12.0, user="ann"), rejected(2, 13.0, user="ann"))
    assert rig.requests() == {"unknown": 10_000, "ann": 2}


def test_users_past_the_most_are_other_and_each_is_said_once() -> None:
    rig = Rig(max_users=2)
    for id, user in enumerate(["ann", "bob", "cat", "cat", "dan", "ann"]):
        rig.take(begin(id, 10.0, user=user), end(id, 11.0, user=user))
    assert rig.requests() == {"ann": 2, "bob": 1, "other": 3}
    assert rig.overflow() == 2
    rig.take(begin(9, 12.0, user="cat"), rejected(9, 13.0, user="cat"))
    assert rig.requests()["other"] == 4


def test_names_that_found_no_room_take_a_bounded_amount_of_memory() -> None:
    rig = Rig(max_users=1)
    for id in range(1000):
        rig.take(begin(id, 10.0, user=f"u{id}"), end(id, 11.0, user=f"u{id}"))
    assert rig.requests() == {"u0": 1, "other": 999}
    assert rig.overflow() == 999
    (users,) = (one for one in rig.keeper._followers if hasattr(one, "_folded"))
    assert len(users._folded) == 20


def test_an_end_whose_begin_was_lost_counts_for_its_user() -> None:
    rig = Rig()
    rig.take(end(1, 11.0, user="ann", output_tokens=6, ttft_seconds=0.5))
    assert rig.requests() == {"ann": 1}
    assert rig.value("output_tokens_total", "ann") == 6
    assert rig.value("time_to_first_token_seconds_count", "ann") == 1


def test_what_a_dead_worker_did_counts_for_its_users() -> None:
    rig = Rig()
    rig.take(begin(1, 10.0, user="ann"), output(1, 10.5, tokens=2), connection=7)
    rig.keeper.lost(7)
    assert rig.requests() == {"ann": 1}
    assert rig.value("output_tokens_total", "ann") == 2


def test_only_completed_streams_have_a_decode_rate() -> None:
    rig = Rig()
    cut: dict[str, Any] = {"outcome": "client_closed", "decode_tokens_per_second": 10.0}
    rig.take(begin(1, 10.0, user="ann"), end(1, 11.0, user="ann", **cut))
    assert rig.value("decode_tokens_per_second_count", "ann") == 0


def test_without_the_setting_there_is_nothing_by_user() -> None:
    rig = Rig(max_users=None)
    rig.take(begin(1, 10.0, user="ann"), end(1, 11.0, user="ann"))
    assert [family.name for family in rig.collect() if "user" in family.name] == []
    assert rig.overflow() is None
