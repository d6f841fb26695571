"""The program ``hf-sgpe``, which ``python -m hf_sgpe`` runs, too."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C ends it with one word, also while it is being imported."""
    try:
        from hf_sgpe.cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
