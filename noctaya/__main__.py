"""`python -m noctaya` is the `noctaya` command."""

from noctaya.cli import main

if __name__ == "__main__":
    main()
