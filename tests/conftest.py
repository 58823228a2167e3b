"""Shared by all tests."""

import importlib.util
import os

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # windows without a display
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # tests compile a lot and compute little

# The shapes in the annotations of rnce.policies hold while tests run; the package itself does not pay for the checks.
if importlib.util.find_spec("jaxtyping") and importlib.util.find_spec("beartype"):
    from jaxtyping import install_import_hook

    install_import_hook("rnce.policies", "array_shapes.arrays_only")
