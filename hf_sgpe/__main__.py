"""The program ``hf-sgpe``. It can also be run as ``python -m hf_sgpe``."""

import gc
import sys


def main() -> None:
    """Run the command line. On Ctrl-C, even during imports, print one word and exit."""
    try:
        from hf_sgpe.cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    try:
        run()
    finally:
        # Python's end searches all objects for cycles several times; with PyTorch this takes more than a second.
        gc.freeze()


if __name__ == "__main__":
    main()
