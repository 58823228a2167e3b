"""Two conditional densities in the plane, for looking at what a model has learnt: pinwheel and spiral.

Both are scaled so that for every context at least 99.9 % of the mass lies in [-4, 4]², and both know their own
density: the pinwheel in closed form, the spiral by a quadrature that is exact to rounding.
"""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from rnce.datasets.errors import DatasetError

__all__ = ["Pinwheel", "Spiral", "Synthetic"]


class Synthetic(ABC):
    """A density p(y | x) of points y in the plane, with a uniform density of contexts x."""

    name: str
    contexts: tuple[float, ...]
    """The contexts to evaluate at."""
    context_dim: int
    """Size of an embedded context."""
    event_dim = 2

    def sample(self, context: float, n: int, seed: int) -> Float[np.ndarray, "{n} 2"]:
        """Draw n points from p(y | context)."""
        return self._draw(np.random.default_rng(seed), self._valid(np.full(n, context))).astype(np.float32)

    def sample_joint(self, n: int, seed: int) -> tuple[Float[np.ndarray, "{n}"], Float[np.ndarray, "{n} 2"]]:
        """Draw n contexts (not embedded) and one point for each."""
        rng = np.random.default_rng(seed)
        contexts = self._draw_contexts(rng, n)
        return contexts.astype(np.float32), self._draw(rng, contexts).astype(np.float32)

    def log_density(self, context: ArrayLike, y: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """Log p(y | x) for one context, or for one per point."""
        points = np.asarray(y, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 2:
            raise DatasetError(f"{self.name}: y must have shape (n, 2), got {points.shape}")
        contexts = self._valid(np.broadcast_to(np.asarray(context, dtype=np.float64), len(points)))
        return self._log_density(contexts, points)

    @abstractmethod
    def embed(self, context: ArrayLike) -> Float[np.ndarray, "*batch dim"]:
        """Turn contexts of any shape into the network's input, with one axis more."""

    @abstractmethod
    def _draw_contexts(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, " n"]: ...

    @abstractmethod
    def _draw(self, rng: np.random.Generator, contexts: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 2"]: ...

    @abstractmethod
    def _log_density(
        self, contexts: Float[np.ndarray, " n"], y: Float[np.ndarray, "n 2"]
    ) -> Float[np.ndarray, " n"]: ...

    @abstractmethod
    def _valid(self, contexts: np.ndarray) -> np.ndarray:
        """The same contexts, or an error that says which are allowed."""


class Pinwheel(Synthetic):
    """Four to seven spokes; the context is their number.

    A spoke is a Gaussian at radius 1 (std 0.3 along, 0.1 across), turned to its place and twisted by an angle
    rate · exp(radius). Twisting by a function of the radius preserves area, which leaves the density in closed form.
    """

    name = "pinwheel"
    contexts = (4, 5, 6, 7)
    context_dim = 10
    scale = 2.0
    stds = np.array([0.3, 0.1])
    rate = 0.25

    def embed(self, context: ArrayLike) -> Float[np.ndarray, "*batch dim"]:
        """Sinusoidal position embedding: five sines, then five cosines, of falling frequency."""
        half = self.context_dim // 2
        frequencies = 10_000.0 ** (-np.arange(half) / half)
        phase = self._valid(np.asarray(context, dtype=np.float64))[..., None] * frequencies
        return np.concatenate([np.sin(phase), np.cos(phase)], axis=-1).astype(np.float32)

    def _draw_contexts(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.choice(np.asarray(self.contexts, dtype=np.float64), n)

    def _draw(self, rng: np.random.Generator, contexts: np.ndarray) -> np.ndarray:
        along_across = rng.standard_normal((len(contexts), 2)) * self.stds + [1.0, 0.0]
        spoke = np.floor(rng.random(len(contexts)) * contexts)
        radius = np.linalg.norm(along_across, axis=-1)
        return self.scale * _rotate(along_across, 2 * np.pi * spoke / contexts + self.rate * np.exp(radius))

    def _log_density(self, contexts: np.ndarray, y: np.ndarray) -> np.ndarray:
        points = y / self.scale
        untwisted = _rotate(points, -self.rate * np.exp(np.linalg.norm(points, axis=-1)))
        spokes = np.arange(max(self.contexts))[:, None]
        along_across = _rotate(np.broadcast_to(untwisted, (len(spokes), *y.shape)), -2 * np.pi * spokes / contexts)
        gaussian = -0.5 * np.sum(((along_across - [1.0, 0.0]) / self.stds) ** 2, axis=-1)
        normaliser = np.log(2 * np.pi * self.stds.prod() * self.scale**2 * contexts)
        return logsumexp(np.where(spokes < contexts, gaussian, -np.inf), axis=0) - normaliser

    def _valid(self, contexts: np.ndarray) -> np.ndarray:
        _refuse(self.name, contexts, np.isin(contexts, self.contexts), f"one of {self.contexts}")
        return contexts


class Spiral(Synthetic):
    """An Archimedean spiral plus noise; the context is the angle in degrees that it runs through, 400 to 800.

    The angle is drawn with a density that rises linearly, so that outer turns are as dense as inner ones.
    """

    name = "spiral"
    contexts = (400, 500, 600, 700, 800)
    context_dim = 1
    low, high = 400.0, 800.0
    radius = 3.6  # where the longest spiral ends
    noise = 0.1

    def embed(self, context: ArrayLike) -> Float[np.ndarray, "*batch dim"]:
        """The length, normalised to [-1, 1]."""
        lengths = self._valid(np.asarray(context, dtype=np.float64))
        return ((2 * lengths - self.low - self.high) / (self.high - self.low)).astype(np.float32)[..., None]

    def _curve(self, angle: np.ndarray) -> np.ndarray:
        radius = self.radius / np.radians(self.high) * angle
        return radius[..., None] * np.stack([-np.cos(angle), np.sin(angle)], axis=-1)

    def _draw_contexts(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.uniform(self.low, self.high, n)

    def _draw(self, rng: np.random.Generator, contexts: np.ndarray) -> np.ndarray:
        angle = np.radians(contexts) * np.sqrt(rng.random(len(contexts)))
        return self._curve(angle) + self.noise * rng.standard_normal((len(contexts), 2))

    def _log_density(self, contexts: np.ndarray, y: np.ndarray) -> np.ndarray:
        # p(y|x) = ∫ 2a/L² N(y; curve(a), noise²) da over [0, L]. On the outermost turn the integrand is as narrow as
        # noise/radius = 0.028 rad; 16 Gauss nodes in each of 128 panels (≤ 0.11 rad) resolve it to rounding.
        nodes, weights = _composite_gauss(panels=128, order=16)
        log_weights = np.log(2 * nodes * weights) - np.log(2 * np.pi * self.noise**2)
        out = np.empty(len(y))
        for context in np.unique(contexts):
            curve = self._curve(np.radians(context) * nodes)
            rows = np.flatnonzero(contexts == context)
            for some in np.array_split(rows, -(-len(rows) // 2048)):  # bounds memory
                squared = cdist(y[some], curve, "sqeuclidean")
                out[some] = logsumexp(log_weights - 0.5 * squared / self.noise**2, axis=1)
        return out

    def _valid(self, contexts: np.ndarray) -> np.ndarray:
        inside = (contexts >= self.low) & (contexts <= self.high)
        _refuse(self.name, contexts, inside, f"in [{self.low:g}, {self.high:g}] degrees")
        return contexts


def _rotate(points: Float[np.ndarray, "*n 2"], angle: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n 2"]:
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = points[..., 0], points[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)


def _composite_gauss(panels: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    left = np.arange(panels)[:, None]
    return ((left + (nodes + 1) / 2) / panels).ravel(), np.tile(weights / (2 * panels), panels)


def _refuse(name: str, contexts: np.ndarray, fine: np.ndarray, allowed: str) -> None:
    if not np.all(fine):
        bad = np.asarray(contexts)[~fine].ravel()
        raise DatasetError(f"{name}: a context must be {allowed}, got {bad[0]:g}")
