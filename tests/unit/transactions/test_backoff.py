"""How long a writer waits after another writer commits first."""

import random

from lance_core.transactions.backoff import SlotBackoff


def test_backoff_waits_whole_slots_from_a_doubling_range() -> None:
    slots = [slots for slots in (2, 4, 8, 16, 32, 64, 128, 128) for _ in range(3)]
    highest = [0] * len(slots)
    for seed in range(300):
        backoff = SlotBackoff(random.Random(seed))
        for index, num_slots in enumerate(slots):
            seconds = backoff.next_seconds(0.010)
            count = round(seconds / 0.011)
            assert abs(seconds - count * 0.011) < 1e-9
            assert 0 <= count < num_slots
            highest[index] = max(highest[index], count)
    assert all(count > 0.9 * (num_slots - 1) for count, num_slots in zip(highest, slots, strict=True))


def test_backoff_slot_is_the_shortest_attempt_so_far() -> None:
    """The first attempt loads modules and checks files, which says nothing about how long another writer needs."""
    waits = {attempt: set[float]() for attempt in range(4)}
    for seed in range(200):
        backoff = SlotBackoff(random.Random(seed))
        for attempt, seconds in enumerate((1.0, 0.010, 2.0, 0.005)):
            waits[attempt].add(round(backoff.next_seconds(seconds), 6))
    assert waits[0] == {0.0, 1.1}
    assert waits[1] == {0.0, 0.011}
    assert waits[2] == waits[1]
    assert waits[3] == {round(0.0055 * slot, 6) for slot in range(4)}
