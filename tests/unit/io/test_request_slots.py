"""Calls with several requests share a limited number of slots."""

import asyncio

from lance_core.io.request_slots import RequestSlots


async def _settled() -> None:
    """Let all tasks run until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


class _Calls:
    """Calls that occupy slots until they are told to end."""

    def __init__(self, num_slots: int) -> None:
        self._slots = RequestSlots(num_slots)
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, num_slots: int) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._call(name, num_slots))

    def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()

    def cancel(self, name: str) -> None:
        self._tasks[name].cancel()

    async def _call(self, name: str, num_slots: int) -> None:
        async with self._slots.taken(num_slots):
            self.running.append(name)
            await self._ends[name].wait()
        self.running.remove(name)


def test_calls_with_several_requests_never_exceed_the_number_of_slots_and_all_complete():
    async def run() -> None:
        calls = _Calls(5)
        for name in "abcd":
            calls.begin(name, 2)
        await _settled()
        assert calls.running == ["a", "b"]
        calls.end("a", "b")
        await _settled()
        assert calls.running == ["c", "d"]

    asyncio.run(run())


def test_call_with_many_requests_is_not_overtaken_by_later_calls():
    async def run() -> None:
        calls = _Calls(4)
        calls.begin("first", 2)
        await _settled()
        calls.begin("many", 4)
        calls.begin("few", 1)
        await _settled()
        assert calls.running == ["first"]
        calls.end("first")
        await _settled()
        assert calls.running == ["many"]
        calls.end("many")
        await _settled()
        assert calls.running == ["few"]

    asyncio.run(run())


def test_canceled_call_releases_its_slots_and_stops_waiting_for_more_slots():
    async def run() -> None:
        calls = _Calls(4)
        calls.begin("first", 3)
        await _settled()
        calls.begin("many", 4)
        calls.begin("few", 1)
        await _settled()
        calls.cancel("many")
        await _settled()
        assert calls.running == ["first", "few"]
        calls.begin("later", 4)
        await _settled()
        # The slots are granted, and the call is cancelled before it continues.
        calls.end("first", "few")
        while len(calls.running) == 2:
            await asyncio.sleep(0)
        calls.cancel("later")
        calls.begin("last", 4)
        await _settled()
        assert "last" in calls.running

    asyncio.run(run())
