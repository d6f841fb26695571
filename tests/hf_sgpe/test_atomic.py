"""Writing whole or not at all; most of it is tested where files are written."""

from hf_sgpe.atomic import remove_leftovers_of


def test_what_a_killed_process_left_of_a_file_goes_and_nothing_else(tmp_path):
    kept = {"b[1].parquet", ".b1.parquet.5.tmp", ".b[1].parquet.old.tmp", ".b[1].parquet-backup-of-mine"}
    left = {".b[1].parquet.512.tmp", ".b[1].parquet-a_b1c2d3"}
    for name in kept | left:
        (tmp_path / name).mkdir() if "-" in name else (tmp_path / name).touch()
    remove_leftovers_of(tmp_path / "b[1].parquet")
    assert {file.name for file in tmp_path.iterdir()} == kept
