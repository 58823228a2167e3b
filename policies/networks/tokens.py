"""From named context entries and events to tokens of one width, and blocks over tokens (n, width)."""

import dataclasses

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import NetworkConfig, Shapes
from rnce.policies.networks.functional import Context
from rnce.policies.networks.layers import dense, features_only
from rnce.policies.networks.vision import GROUPS, CoordConvResNet


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenConfig(NetworkConfig):
    """Settings of networks over tokens.

    Attributes:
        width: width of a token; a multiple of 8.
        depth: blocks.
        heads: attention heads.
        unordered: context entries that are sets: their tokens carry no position.
        output_width: hidden layer between the flattened event tokens and the output.
        vision_width: channels of the network of images.
        vision_layers: residual layers of the network of images.
        vision_filters: spatial-softmax filters; an image becomes two coordinates for each.
    """

    width: int = 64
    depth: int = 3
    heads: int = 4
    unordered: tuple[str, ...] = ("obstacles",)
    output_width: int = 128
    vision_width: int = 64
    vision_layers: int = 4
    vision_filters: int = 4

    def __post_init__(self) -> None:
        """Check the divisions that attention and group normalisation make."""
        super().__post_init__()
        if not self.width or self.width % GROUPS or self.width % max(self.heads, 1):
            raise ValueError(f"width={self.width}: use a multiple of {GROUPS} and of heads={self.heads}.")


class Tokenizer(nnx.Module):
    """Context entries to tokens: (n, f) and images (n, h, w, c) give n, vectors and numbers one.

    Every entry has its own dense layer, which also tells the kinds of tokens apart.
    """

    def __init__(self, config: TokenConfig, shapes: Shapes, width: int, rngs: nnx.Rngs):
        self.unordered, self.width = tuple(config.unordered), width
        shapes = features_only(shapes)
        self.vision = nnx.Dict({n: self._resnet(config, s, rngs) for n, s in shapes.items() if len(s) == 4})
        sizes = {name: shape[-1] if shape else 1 for name, shape in shapes.items()}
        sizes |= {name: resnet.size for name, resnet in self.vision.items()}
        self.lifts = nnx.Dict({name: dense(size, width, rngs) for name, size in sizes.items()})

    @staticmethod
    def _resnet(config: TokenConfig, shape: tuple[int, ...], rngs: nnx.Rngs) -> CoordConvResNet:
        return CoordConvResNet(shape[-1], config.vision_width, config.vision_layers, config.vision_filters, rngs)

    def __call__(self, context: Context) -> dict[str, Float[Array, "_ width"]]:
        """The tokens of each entry, by name."""
        tokens = {}
        for name, lift in self.lifts.items():
            value = self.vision[name](context[name]) if name in self.vision else context[name]
            lifted = lift(value.reshape(-1, value.shape[-1] if value.ndim else 1))
            tokens[name] = lifted if name in self.unordered else lifted + positions(0, *lifted.shape)
        return tokens


def positions(start: int, count: int, width: int) -> Float[Array, "count width"]:
    """The usual sinusoidal embedding of the positions from `start` on."""
    angles = jnp.arange(start, start + count)[:, None] / 10_000 ** (jnp.arange(0, width, 2) / width)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class SelfAttention(nnx.Module):
    """An encoder block: multi-head self-attention and a four times wider MLP, normalised before each."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs):
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.norm_attention, self.norm_mlp = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.inner, self.outer = dense(width, 4 * width, rngs), dense(4 * width, width, rngs)

    def __call__(self, tokens: Float[Array, "n width"]) -> Float[Array, "n width"]:
        """One block."""
        tokens = tokens + self.attention(self.norm_attention(tokens))
        return tokens + self.outer(nnx.swish(self.inner(self.norm_mlp(tokens))))


class ConvBlock(nnx.Module):
    """Convolution of size 3 along the tokens → GroupNorm(8) → σ → dense → σ."""

    def __init__(self, width: int, outputs: int, rngs: nnx.Rngs, scale: float = 1.0):
        # A dense layer on (previous, this, next): one wide matrix product, also under vmap and differentiation.
        self.conv = dense(3 * width, width, rngs)
        self.norm = nnx.GroupNorm(width, GROUPS, rngs=rngs)
        self.dense = dense(width, outputs, rngs, scale=scale)

    def __call__(self, tokens: Float[Array, "n width"]) -> Float[Array, "n outputs"]:
        """One block."""
        padded = jnp.pad(tokens, ((1, 1), (0, 0)))
        h = self.conv(jnp.concatenate([padded[:-2], tokens, padded[2:]], axis=-1))
        # Statistics over all tokens and the channels of a group, so the tokens must not pass as a batch.
        return nnx.swish(self.dense(nnx.swish(self.norm(h[None])[0])))
