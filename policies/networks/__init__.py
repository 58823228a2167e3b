"""Networks: written as NNX modules, used as pure functions (`functional.py`)."""
