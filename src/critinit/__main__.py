"""``python -m critinit``."""

from critinit.cli import main

if __name__ == "__main__":
    main()
