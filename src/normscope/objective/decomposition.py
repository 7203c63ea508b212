"""The identity behind the objective, checked where every term is known: linear-Gaussian x and z.

KL[p_n(x,z) ‖ p_a(x,z)] = I_n(x;z) − H_n(z) + E_{p_n(x)} H(p_n(z|x), p_a(z|x)) + KL[p_n(x) ‖ p_a(x)]
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class LinearGaussian:
    """x ~ N(mean [k], covariance [k, k]) and z given x ~ N(weight [d, k]·x + bias [d], noise [d, d])."""

    mean: Tensor
    covariance: Tensor
    weight: Tensor
    bias: Tensor
    noise: Tensor


class Terms(NamedTuple):
    """The four terms in nats; the entropy and the cross entropy are differential, so either may be negative."""

    information: Tensor
    entropy: Tensor
    cross_entropy: Tensor
    input_divergence: Tensor

    def total(self) -> Tensor:
        """The right-hand side of the identity."""
        return self.information - self.entropy + self.cross_entropy + self.input_divergence


def closed_form(normal: LinearGaussian, anomalous: LinearGaussian) -> Terms:
    """The four terms exactly."""
    entropy = _entropy(_code(normal).covariance)
    return Terms(
        information=entropy - _entropy(normal.noise),
        entropy=entropy,
        cross_entropy=_cross_entropy(normal, anomalous),
        input_divergence=_divergence(_input(normal), _input(anomalous)),
    )


def kl(normal: LinearGaussian, anomalous: LinearGaussian) -> Tensor:
    """The left-hand side of the identity, from the two joint Gaussians and none of the terms."""
    return _divergence(_joint(normal), _joint(anomalous))


def estimate(
    normal: LinearGaussian, anomalous: LinearGaussian, samples: int, generator: torch.Generator
) -> tuple[Terms, Terms]:
    """The four terms by Monte Carlo over p_n(x,z), and their standard errors."""
    x = _draw(normal.covariance, samples, generator) + normal.mean
    z = _draw(normal.noise, samples, generator) + _given(normal, x).mean
    log_code = _log_density(z, _code(normal))
    each = Terms(
        information=_log_density(z, _given(normal, x)) - log_code,
        entropy=-log_code,
        cross_entropy=-_log_density(z, _given(anomalous, x)),
        input_divergence=_log_density(x, _input(normal)) - _log_density(x, _input(anomalous)),
    )
    return Terms(*(term.mean() for term in each)), Terms(*(term.std() / samples**0.5 for term in each))


class _Gaussian(NamedTuple):
    mean: Tensor
    covariance: Tensor


def _input(joint: LinearGaussian) -> _Gaussian:
    return _Gaussian(joint.mean, joint.covariance)


def _given(joint: LinearGaussian, x: Tensor) -> _Gaussian:
    return _Gaussian(x @ joint.weight.T + joint.bias, joint.noise)


def _code(joint: LinearGaussian) -> _Gaussian:
    mean = joint.weight @ joint.mean + joint.bias
    return _Gaussian(mean, joint.weight @ joint.covariance @ joint.weight.T + joint.noise)


def _joint(joint: LinearGaussian) -> _Gaussian:
    code, shared = _code(joint), joint.weight @ joint.covariance
    rows = [torch.cat([joint.covariance, shared.T], 1), torch.cat([shared, code.covariance], 1)]
    return _Gaussian(torch.cat([joint.mean, code.mean]), torch.cat(rows))


def _entropy(covariance: Tensor) -> Tensor:
    return 0.5 * torch.logdet(2 * math.pi * math.e * covariance)


def _cross_entropy(normal: LinearGaussian, anomalous: LinearGaussian) -> Tensor:
    # -log N(z; W_a x + b_a, S_a) is quadratic in the residual, whose second moment under p_n(x,z) therefore suffices.
    weight = normal.weight - anomalous.weight
    residual = weight @ normal.mean + normal.bias - anomalous.bias
    moment = normal.noise + weight @ normal.covariance @ weight.T + residual.outer(residual)
    return 0.5 * ((anomalous.noise.inverse() @ moment).trace() + torch.logdet(2 * math.pi * anomalous.noise))


def _divergence(p: _Gaussian, q: _Gaussian) -> Tensor:
    precision, shift = q.covariance.inverse(), p.mean - q.mean
    ratio = precision @ p.covariance
    return 0.5 * (ratio.trace() - len(shift) - torch.logdet(ratio) + shift @ precision @ shift)


def _log_density(value: Tensor, gaussian: _Gaussian) -> Tensor:
    shift = value - gaussian.mean
    distance = (shift @ gaussian.covariance.inverse() * shift).sum(1)
    return -0.5 * (distance + torch.logdet(2 * math.pi * gaussian.covariance))


def _draw(covariance: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    root: Tensor = torch.linalg.cholesky(covariance)
    return torch.randn(samples, len(root), generator=generator, dtype=root.dtype) @ root.T
