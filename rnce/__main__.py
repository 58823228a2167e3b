"""`python -m rnce` is the `rnce` command."""

from rnce.cli import main

if __name__ == "__main__":
    main()
