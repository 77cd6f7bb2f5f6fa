"""`make fuzz`: a hundred thousand inputs, or as many as are named, from a seed that is told."""

import argparse
import sys

from tests.fuzz.fuzzer import Fuzzer


def main() -> int:
    """Prints what the inputs came to; an input that fails ends it, with the seed to repeat it."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz")
    options.add_argument("--inputs", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    fuzzer = Fuzzer(chosen.seed)
    try:
        fuzzer.run(chosen.inputs, lambda text: print(text, flush=True))
    except BaseException:
        print(f"after {sum(fuzzer.counts.values()):,} inputs of seed {chosen.seed}:", file=sys.stderr)
        raise
    for word, count in sorted(fuzzer.counts.items()):
        print(f"{count:8,}  {word}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
