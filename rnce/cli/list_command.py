"""`rnce list`: what can be made, loaded and trained."""


def list_everything() -> None:
    """List environments, policies and datasets.

    Example: rnce list
    """
    import gymnasium as gym

    print("environments")
    for name, spec in sorted(gym.registry.items()):
        if str(spec.entry_point).startswith("rnce."):
            print(f"  {name}")
