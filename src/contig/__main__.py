"""``python -m contig`` is the command line."""

from contig.cli import main

if __name__ == "__main__":
    main()
