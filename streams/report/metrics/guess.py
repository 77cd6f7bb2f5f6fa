"""What one group says about one of its rows: the best guess that anybody can make without knowing more."""

from collections.abc import Iterable

from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Reading


class Guess(Metric):
    """The largest share of a protected value in one group."""

    figures = {  # noqa: RUF012
        "best_guess": Figure(
            "best guess", ".4f", "The largest share of a protected value in one group of this release."
        ),
    }

    def measure(self, reading: Reading) -> Figures:
        return reading.measured(*self.figures)

    def warnings(self, last: Figures) -> Iterable[str]:
        if last.get("best_guess") is not None:
            yield (
                "From this release alone: whoever knows that a person is in a group guesses a value of theirs right "
                f"with at most {self.write(last, 'best_guess')}."
            )
