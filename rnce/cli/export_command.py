"""`rnce export`."""

from pathlib import Path
from typing import Annotated

import tyro


def export(
    policy: Annotated[str, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    samples: int | None = None,
    sampler: str | None = None,
    platforms: tuple[str, ...] = ("cpu",),
) -> None:
    """Write a policy as one file that runs without rnce: a compiled program for JAX, or ONNX.

    Example: rnce export pusht/i-r-nce pusht.stablehlo

    Normaliser, networks, sampler and ranking are inside. A name that ends in .onnx gives ONNX (nf and diffusion).

    Args:
        policy: A shipped policy's name, or a checkpoint folder.
        out: The file.
        samples: Candidates ranked per plan.
        sampler: The policy's sampler, by name.
        platforms: What it shall run on: cpu, cuda, rocm, tpu.
    """
    from rnce.eval.adapters import is_own, policy_factory
    from rnce.policies.export import window_shapes, write

    made = policy_factory(policy, samples=samples, sampler=sampler)()
    if not is_own(made):
        raise ValueError(f"{policy} cannot be exported; use a shipped policy's name or a checkpoint folder")
    write(made, out, platforms)
    windows = {key: part.shape for key, part in window_shapes(made).items()}
    print(f"written: {out} ({out.stat().st_size / 1e6:.1f} MB), {made.name}, {made.samples} candidates a plan")
    if out.suffix == ".onnx":
        noise = (made.samples, made.task.dim)
        print(f"onnxruntime.InferenceSession('{out}').run(['actions'], dict(noise={noise}, **{windows}))")
    else:
        print("import jax.export")
        print(f"plan = jax.export.deserialize(bytearray(open('{out}', 'rb').read()))")
        print(f"actions = plan.call(jax.random.PRNGKey(0), observations)  # a dict of float32 arrays {windows}")
