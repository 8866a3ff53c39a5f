from typing import get_args, get_type_hints

from proxy import channel, sender
from proxy.keeper import Keeper


def test_the_keeper_takes_every_kind_of_record() -> None:
    kinds = {get_args(get_type_hints(record)["kind"])[0] for record in get_args(channel.Record)}
    keeper = Keeper(upstreams=[], max_models=1, stall_seconds=2.0, buckets={}, log_path=None)
    assert set(keeper._take) == kinds


def test_the_longest_batch_of_a_sender_is_taken() -> None:
    record = b"x" * sender._MAX_RECORD_BYTES
    small = [b"{}"] * (sender._BATCH_BYTES // 2)
    longest = max(map(len, sender._batches([*small, record])))
    assert sender._BATCH_BYTES + sender._MAX_RECORD_BYTES < longest < channel.MAX_BATCH_BYTES
