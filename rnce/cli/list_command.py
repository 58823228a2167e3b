"""`rnce list`: what can be made, loaded and trained."""

from importlib.resources import files


def list_everything() -> None:
    """List environments, policies and datasets.

    Example: rnce list
    """
    from rnce.datasets import NAMES
    from rnce.envs import ENVIRONMENTS

    sections = {
        'environments — gymnasium.make("NAME")': [spec["id"] for spec in ENVIRONMENTS],
        'policies — rnce.load_policy("NAME")': shipped_policies(),
        'datasets — rnce.datasets.load("NAME")': list(NAMES),
    }
    for title, names in sections.items():
        print(title)
        for name in names or ["(none ships with this version)"]:
            print(f"  {name}")


def shipped_policies() -> list[str]:
    """Names of the checkpoints inside the package, found by their files: no JAX is needed to list them."""
    pretrained = files("rnce.policies") / "pretrained"
    tasks = sorted(pretrained.iterdir(), key=lambda task: task.name) if pretrained.is_dir() else []
    return [
        f"{task.name}/{method.name}"
        for task in tasks
        if task.is_dir()
        for method in sorted(task.iterdir(), key=lambda method: method.name)
        if (method / "config.json").is_file()
    ]
