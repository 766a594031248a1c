"""Epsilon by privacy loss random variables (PRV), composed by Opacus: a third opinion, for comparing."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fl_dp.accounting.accountant import Accountant
from fl_dp.accounting.accountants.pld import transform_error
from fl_dp.accounting.accountants.rdp import compute_rdp_epsilon
from fl_dp.errors import AccountingError
from fl_dp.records import Entry, total_steps

if TYPE_CHECKING:
    from fl_dp.accounting.privacy_loss import Array, StepLoss

_ERROR = 0.01  # in epsilon: Opacus' own choice; less if epsilon is less than 1
_LEAST_ERROR, _MOST_ERROR = 1e-4, 0.1
_DELTA_SHARE = 1e-3  # the part of delta that makes up for truncation: Opacus' own choice
_POINTS = 2**21  # the most points of the grid; they bound time (about 3 s) and memory
_MOST_LOSS = 700.0  # its exponential is still a float
_TAIL = 12.0  # standard deviations of the noise; beyond them nothing adds to a mean
_PANELS, _NODES = 200, 16


def compute_prv_epsilon(entries: tuple[Entry, ...], delta: float) -> float:
    """An upper bound of epsilon but for floating-point rounding, which is not bounded; about 0.02 too large.

    It is the upper end of the error interval of Gopi, Lee, Wutschitz 2021 (arXiv 2106.02848, section 5), the
    larger one of removing and of adding a record; Opacus' own accountant looks only at removing.
    Raises AccountingError if too fine a grid is needed: for a large epsilon, a tiny delta, very many steps.
    """
    resolved = delta - transform_error(entries) - _POINTS * sys.float_info.epsilon
    if resolved < delta / 2:
        raise _refusal(f"delta={delta} is too small for {total_steps(entries)} steps")
    delta_error = _DELTA_SHARE * delta
    epsilon_error, half_width = _errors(entries, delta, delta_error)
    tolerance = (resolved, delta_error, epsilon_error)
    directions = ([_Loss.removal(e) for e in entries], [_Loss.addition(e) for e in entries])
    try:
        bounds = [_one_direction(losses, entries, tolerance, half_width) for losses in directions]
    except (RuntimeError, ValueError) as error:  # Opacus' own checks of its grid
        raise _refusal(f"{total_steps(entries)} steps ({error})") from error
    return max(0.0, *bounds)


def _errors(entries: tuple[Entry, ...], delta: float, delta_error: float) -> tuple[float, float]:
    """The error of epsilon that the grid can keep, and the half-width of the grid.

    At most delta_error lies outside of the grid in either tail, by RDP's bound (remark 5.6).
    """
    steps = total_steps(entries)
    singles = (e.taking(1) for e in entries)
    half_width = 3 + max(
        compute_rdp_epsilon(entries, delta_error / 4),
        *(compute_rdp_epsilon((single,), delta_error / (8 * steps)) for single in singles),
    )
    wanted = max(_LEAST_ERROR, _ERROR * min(1.0, compute_rdp_epsilon(entries, delta)))
    kept = 2 * (half_width + _MOST_ERROR) * _mesh_divisor(steps, delta_error) / _POINTS
    error = max(wanted, kept)
    if error > _MOST_ERROR or half_width > _MOST_LOSS:
        raise _refusal(f"{steps} steps with losses up to {half_width:.4g}")
    return error, half_width + error


def _mesh_divisor(steps: int, delta_error: float) -> float:
    """epsilon_error divided by the interval of the grid."""
    return math.sqrt(steps * math.log(12 / delta_error) / 2)


def _one_direction(
    losses: "list[_Loss]",
    entries: tuple[Entry, ...],
    tolerance: tuple[float, float, float],
    half_width: float,
) -> float:
    """losses: of one step of each entry; tolerance: delta, and the errors of delta and of epsilon."""
    from opacus.accountants.analysis import prv

    delta, delta_error, epsilon_error = tolerance
    interval = epsilon_error / _mesh_divisor(total_steps(entries), delta_error)
    domain = prv.Domain.create_aligned(-half_width, half_width, interval)
    steps = [_Truncated(loss, domain.t_min, domain.t_max) for loss in losses]
    composed = prv.compose_heterogeneous(
        [prv.discretize(step, domain) for step in steps], [entry.steps for entry in entries]
    )
    if composed.compute_delta_estimate(0.0) <= delta - delta_error:
        return epsilon_error
    return float(composed.compute_epsilon(delta, delta_error, epsilon_error)[2])


@dataclass(frozen=True, slots=True)
class _Loss:
    """One direction of one step: distribution and density of its privacy loss.

    cdf: of the loss. sign: -1 if the loss falls with the outcome. mixed: the probability that the outcome's
    bell is centred at 1 rather than 0.
    """

    step: "StepLoss"
    cdf: Callable[[Any], "Array"]
    sign: int
    mixed: float

    @classmethod
    def removal(cls, entry: Entry) -> "_Loss":
        step = _step(entry)
        return cls(step, step.removal_cdf, 1, entry.sample_rate)

    @classmethod
    def addition(cls, entry: Entry) -> "_Loss":
        step = _step(entry)
        return cls(step, step.addition_cdf, -1, 0.0)

    def partial_mean(self, least: float, largest: float) -> float:
        """Integral of loss times density, over losses from least to largest, by Gauss-Legendre panels."""
        s = self.step.noise_multiplier
        ends = self.step.outcome(np.sort(self.sign * np.array([least, largest])))
        left, right = np.clip(ends, -_TAIL * s, 1 + _TAIL * s)
        edges = np.linspace(left, right, _PANELS + 1)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        half = np.diff(edges)[:, None] / 2
        x = edges[:-1, None] + half * (1 + nodes)  # (panels, nodes)
        bells = (1 - self.mixed) * np.exp(-((x / s) ** 2) / 2) + self.mixed * np.exp(
            -(((x - 1) / s) ** 2) / 2
        )
        density = bells / (s * math.sqrt(2 * math.pi))
        return float(self.sign * (half * weights * self.step.loss(x) * density).sum())


def _step(entry: Entry) -> "StepLoss":
    from fl_dp.accounting.privacy_loss import StepLoss

    return StepLoss(entry.sample_rate, entry.noise_multiplier)


class _Truncated:
    """A loss given that it lies in an interval, with the two methods that Opacus' `discretize` calls.

    Opacus' own class for this integrates the mean with errors up to 1e-8 per step, which add up.
    """

    def __init__(self, loss: _Loss, least: float, largest: float) -> None:
        self._loss, self._least, self._largest = loss, least, largest
        self._below = float(loss.cdf(least))
        self._mass = float(loss.cdf(largest)) - self._below

    def cdf(self, loss: "Array") -> "Array":
        clipped = np.clip(loss, self._least, self._largest)
        return (self._loss.cdf(clipped) - self._below) / self._mass

    def mean(self) -> float:
        return self._loss.partial_mean(self._least, self._largest) / self._mass


def _refusal(what: str) -> AccountingError:
    return AccountingError(f"The accountant 'prv' cannot resolve {what}; take 'pld' or 'rdp'.")


# It may not hold budgets for two more reasons: it loads torch, through Opacus, and a ledger may hold
# histories that it cannot resolve.
ACCOUNTANT = Accountant(compute_prv_epsilon, upper_bound=False)
