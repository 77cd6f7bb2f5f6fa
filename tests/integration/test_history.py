"""The last releases of a topic, found from its end: the page reads no more than it shows."""

import pytest

from shoal.streams.errors import InputError
from shoal.streams.kafka.history import History
from tests.support.services.table import Make, insert


async def test_the_last_releases_are_found_from_the_end_of_their_topic(make: Make, kafka: str) -> None:
    table = make()
    table.start_planner()
    table.send([insert(number) for number in range(60)])
    for _ in range(3):
        table.release()
    history = History([kafka], table.name, most=2)
    assert [known.number for known in await history.look()] == [2, 3]
    assert await history.records(3) == list(table.releases()[2].records)
    with pytest.raises(InputError, match="release 1 is not among the last 2"):
        await history.records(1)
    table.release()
    assert [known.number for known in await history.look()] == [3, 4]
