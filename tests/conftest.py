"""Shared by all tests."""

import os

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # windows without a display
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
