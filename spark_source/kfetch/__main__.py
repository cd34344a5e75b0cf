"""``python -m kfetch``: the command line, wherever the script ``kfetch`` is not on the PATH."""

from kfetch.admin.cli import main

if __name__ == "__main__":
    main()
