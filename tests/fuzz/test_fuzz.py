"""A few thousand inputs of the fuzzer; `make fuzz` has a hundred thousand."""

import time
from types import ModuleType
from typing import Any

import pytest

from shoal.core.events import guard
from shoal.core.events.record import RecordReader
from shoal.core.overlap import external
from tests.fuzz.fuzzer import Fuzzer


def test_every_input_is_judged_and_the_next_release_comes() -> None:
    fuzzer = Fuzzer(2)
    fuzzer.run(3_000)
    kinds = {word.partition(":")[0] for word in fuzzer.counts}
    assert kinds == {"event", "external", "trigger", "header", "policy", "hierarchy"}
    for kind in kinds:
        words = {word for word in fuzzer.counts if word.startswith(f"{kind}: ")}
        assert f"{kind}: accepted" in words, "an input that is never accepted tests nothing behind the door"
        assert len(words) > 1


@pytest.mark.parametrize(
    ("module", "limit", "wide"), [(external, "LARGEST_COUNT", 2**80), (guard, "SMALLEST_BOUND", 0.0)]
)
def test_a_door_that_lets_too_much_in_is_found(
    module: ModuleType, limit: str, wide: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, wide)
    with pytest.raises((ArithmeticError, AssertionError, ValueError)):
        Fuzzer(5).run(20_000)  # it ends with the first; of eight seeds the last needed 14,000


def test_a_reader_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(self: RecordReader, raw: object, read: Any = RecordReader.read_values) -> Any:
        began = time.process_time()
        while isinstance(raw, list) and time.process_time() - began < 5e-10 * len(raw) ** 2:
            pass
        return read(self, raw)

    monkeypatch.setattr(RecordReader, "read_values", slow)
    with pytest.raises(AssertionError, match="took"):
        Fuzzer(1).run(3_000)
