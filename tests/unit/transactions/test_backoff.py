"""Waiting times after lost races."""

import random

from lance_core.transactions.backoff import SlotBackoff


def test_waits_are_whole_slots_out_of_ever_more() -> None:
    slots = [4, 8, 16, 32, 64, 128, 256, 512, 512, 512]
    highest = [0] * len(slots)
    for seed in range(300):
        backoff = SlotBackoff(0.010, random.Random(seed))
        for index, num_slots in enumerate(slots):
            seconds = backoff.next_seconds()
            count = round(seconds / 0.011)
            assert abs(seconds - count * 0.011) < 1e-9
            assert 0 <= count < num_slots
            highest[index] = max(highest[index], count)
    assert all(count > 0.9 * (num_slots - 1) for count, num_slots in zip(highest, slots, strict=True))
