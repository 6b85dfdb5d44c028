"""`python -m rci`, which is the same as `rci`; and a sentence where only what a robot needs is installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from rci.cli.main import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "rci":
            raise
        sys.stderr.write(
            f"rci: the command line needs the package {error.name!r}, which is not installed: pip install rci. Without "
            "it, `import rci.runtime` runs policies and monitors with NumPy alone.\n"
        )
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
