"""`python -m runtime` is the `flyball` command."""

from runtime.cli import main

if __name__ == "__main__":
    main()
