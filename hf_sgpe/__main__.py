"""``python -m hf_sgpe``: the command line."""

from hf_sgpe.cli import main

if __name__ == "__main__":
    main()
