"""The search for cycles is off while something large is made, and on again afterwards. Threads share one heap."""

import ctypes
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.streams.memory import without_cycle_search
from tests.support.services.services import environment


def test_it_is_off_inside_and_on_again_behind_the_last_of_two_blocks_that_overlap() -> None:
    first, second = without_cycle_search(), without_cycle_search()
    assert gc.isenabled()
    with first:
        second.__enter__()
        assert not gc.isenabled()
    assert not gc.isenabled(), "the second is not over"
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_an_error_does_not_leave_it_off() -> None:
    with pytest.raises(ValueError, match="no"), without_cycle_search():
        raise ValueError("no")
    assert gc.isenabled()


_HEAPS = """
import ctypes, sys, threading
from shoal.streams.cli import main
from shoal.streams.worker import app

def count_heaps(*_, **__):
    begun, kept = threading.Barrier(9), []

    def work():
        kept.append([bytes(1000 + size) for size in range(100)])
        begun.wait()

    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()
    begun.wait()
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    sink = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
    libc.malloc_info(0, sink)
    libc.fclose(sink)
    return 0

app.run_worker = count_heaps
main(["worker"]) if sys.argv[1] == "worker" else count_heaps()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library does not tell its heaps")
def test_the_threads_of_a_worker_share_one_heap(tmp_path: Path) -> None:
    surroundings = environment("nowhere:9092", "redis://nowhere:6379", POLICY="policy.yaml", KEY="a key of sixteen")
    found = {}
    for process in ("worker", "other"):
        told = tmp_path / process
        subprocess.run([sys.executable, "-c", _HEAPS, process, str(told)], check=True, env=surroundings)
        found[process] = told.read_text(encoding="ascii").count("<heap nr=")
    assert found["worker"] == 1
    assert found["other"] > 1, "unless told, threads have heaps of their own"
