"""Intervals at 95 % for a share of counts, noised or not: closed form, so that a page can be drawn again.

a of n = a + b records are counted, each count a sum of cells with normal noise of one deviation s: of k_a
and of k_b cells. With p the true share, a - p n has mean 0 and about the variance

    n p (1 - p) + s^2 ((1 - p)^2 k_a + p^2 k_b):

the records are a sample, and the cells are noised. The interval is all p for which (a - p n)^2 is at most
z^2 times that, which is a quadratic in p: Wilson's interval (1927) without noise, Fieller's (1954) for the
noise. If the noise of n is so large that n may be 0, all p remain, and nothing is told.
"""

import math
from dataclasses import dataclass

Z = 1.959964  # deviations of an interval at 95 %


@dataclass(frozen=True, slots=True)
class Share:
    """value: a / n, within 0 and 1; low, high: ends of its interval. None: too few records for the noise."""

    value: float | None
    low: float | None
    high: float | None


NOT_TOLD = Share(None, None, None)


def share(a: float, b: float, deviation: float = 0.0, cells: tuple[int, int] = (1, 1)) -> Share:
    """Of counts a and b; deviation: of the noise of each of the `cells` that they are sums of."""
    n, noise, (k_a, k_b) = a + b, (Z * deviation) ** 2, cells
    first = n * n + Z * Z * n - noise * (k_a + k_b)
    if n <= 0 or n * n <= noise * (k_a + k_b):
        return NOT_TOLD
    second = 2 * a * n + Z * Z * n - 2 * noise * k_a
    root = math.sqrt(max(0.0, second * second - 4 * first * (a * a - noise * k_a)))
    return Share(
        *(
            min(1.0, max(0.0, one))
            for one in (a / n, *((second + sign * root) / (2 * first) for sign in (-1, 1)))
        )
    )
