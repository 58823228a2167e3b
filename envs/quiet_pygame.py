"""Pygame without its greeting and without the warning it gives about its own use of pkg_resources."""

import os
import warnings

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=".*pkg_resources.*")
    import pygame
    import pygame.font
    import pygame.gfxdraw

__all__ = ["pygame"]
