"""A hidden Markov model of values that mostly stay: forwards and backwards over many trails at once.

A value stays from one step to the next, or is drawn anew from the prior. Arrays are (step, trail, value), padded at the
end of a trail with steps that stay and say nothing, and at the end of the values with ones whose prior is 0.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def posterior(prior: Floats, weight: Floats, stay: Floats) -> Floats:
    """The probability of each value at each step, given all steps.

    `prior` is (trail, value), `weight` (step, trail, value), `stay` (step, trail); the first step stays with nothing.
    Where no value that stayed fits a step, the trail begins again with it. A step that nothing fits at all says
    nothing. Costs four arrays of the size of `weight`.
    """
    steps, trails, _ = weight.shape
    stay = stay.copy()
    stay[0] = 0.0
    forward = np.empty_like(weight)
    weight = weight.copy()
    before = prior
    for step in range(steps):
        now = forward[step]
        _predict(prior, before, stay[step], now)
        now *= weight[step]
        total = now.sum(axis=1)
        stuck = np.flatnonzero(total <= 0.0)
        if len(stuck):
            stay[step, stuck] = 0.0
            now[stuck] = prior[stuck] * weight[step, stuck]
            total[stuck] = now[stuck].sum(axis=1)
            lost = stuck[total[stuck] <= 0.0]
            weight[step, lost] = 1.0
            now[lost] = prior[lost]
            total[lost] = np.maximum(prior[lost].sum(axis=1), np.finfo(float).tiny)
        now /= total[:, None]
        before = now
    backward = np.ones((trails, weight.shape[2]))
    for step in range(steps - 1, 0, -1):
        backward *= weight[step]
        drawn = np.einsum("tv,tv->t", backward, prior)
        backward *= stay[step][:, None]
        backward += ((1.0 - stay[step]) * drawn)[:, None]
        backward /= np.maximum(backward.max(axis=1), np.finfo(float).tiny)[:, None]
        earlier = forward[step - 1]
        earlier *= backward
        earlier /= earlier.sum(axis=1)[:, None]
    return forward


def _predict(prior: Floats, before: Floats, stay: Floats, found: Floats) -> None:
    np.multiply(before, stay[:, None], out=found)
    found += (1.0 - stay)[:, None] * prior
