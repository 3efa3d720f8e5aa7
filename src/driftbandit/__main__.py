"""``python -m driftbandit``: the command `driftbandit`."""

from driftbandit.cli import app

if __name__ == "__main__":
    app()
