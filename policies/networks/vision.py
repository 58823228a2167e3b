"""Images to a few coordinates: a residual network that knows where it looks, ending in spatial softmax."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Num

from rnce.policies.networks.layers import named

GROUPS = 8


class CoordConvResNet(nnx.Module):
    """Images (n, height, width, channels) to (n, 2 · filters): where each filter finds what it looks for.

    The stem and every second layer halve the resolution: 96² pixels end as 12² cells.
    """

    def __init__(self, channels: int, width: int, layers: int, filters: int, rngs: nnx.Rngs):
        self.size = 2 * filters
        # Two more channels hold the coordinates of each pixel.
        self.stem = nnx.Conv(channels + 2, width, (5, 5), strides=2, rngs=rngs)
        self.layers = named("layer", (ResidualConv(width, 2 - i % 2, rngs) for i in range(layers)))
        self.filters = nnx.Conv(width, filters, (1, 1), rngs=rngs)

    def __call__(self, images: Num[Array, "n height width channels"]) -> Float[Array, "n size"]:
        """Coordinates in [−1, 1]: x of all filters, then y."""
        pixels = images / 255.0 if jnp.issubdtype(images.dtype, jnp.integer) else images
        grid = jnp.broadcast_to(coordinates(*pixels.shape[1:3]), (*pixels.shape[:3], 2))
        h = self.stem(jnp.concatenate([pixels, grid], axis=-1))
        for layer in self.layers.values():
            h = layer(h)
        return spatial_softmax(self.filters(nnx.swish(h)))


class ResidualConv(nnx.Module):
    """Two normalised 3×3 convolutions around a skip, which is averaged down where the stride is 2."""

    def __init__(self, width: int, stride: int, rngs: nnx.Rngs):
        self.stride = stride
        self.norms = named("norm", (nnx.GroupNorm(width, GROUPS, rngs=rngs) for _ in range(2)))
        self.convs = named("conv", (nnx.Conv(width, width, (3, 3), strides=s, rngs=rngs) for s in (stride, 1)))

    def __call__(self, h: Float[Array, "n rows columns width"]) -> Float[Array, "n rows2 columns2 width"]:
        """One layer."""
        window = (self.stride, self.stride)
        skip = nnx.avg_pool(h, window, window, "SAME") if self.stride > 1 else h
        for norm, conv in zip(self.norms.values(), self.convs.values()):
            h = conv(nnx.swish(norm(h)))
        return skip + h


def coordinates(rows: int, columns: int) -> Float[Array, "rows columns 2"]:
    """x (rightwards) and y (downwards) of each cell, from −1 to 1."""
    y, x = jnp.meshgrid(jnp.linspace(-1, 1, rows), jnp.linspace(-1, 1, columns), indexing="ij")
    return jnp.stack([x, y], axis=-1)


def spatial_softmax(maps: Float[Array, "n rows columns filters"]) -> Float[Array, "n size"]:
    """The mean coordinates under the softmax of each map over its cells."""
    n, rows, columns, filters = maps.shape
    weights = jax.nn.softmax(maps.reshape(n, rows * columns, filters), axis=1)
    return jnp.einsum("ncf,cx->nxf", weights, coordinates(rows, columns).reshape(-1, 2)).reshape(n, -1)
