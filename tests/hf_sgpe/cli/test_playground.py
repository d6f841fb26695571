import json

from support.command import hf_sgpe


def test_a_playground_names_tokenizers_without_saying_where_they_lie(saved, tmp_path):
    site = tmp_path / "site"
    done = hf_sgpe("playground", saved, "--baseline", f"old={saved}", "--out", site, "--json")
    assert json.loads(done.stdout)["files"].count("tokenizer-2.json") == 1
    page = (site / "index.html").read_text(encoding="utf-8")
    assert f"the tokens of {saved.name} and old" in page
    assert str(saved.parent) not in page
    assert "ශ්‍රී ලංකාව" in page.split("<textarea")[1].split("</textarea>")[0]  # it is for Sinhala first
    hf_sgpe("playground", saved, "--baseline", saved / "tokenizer.json", "--out", site, "--name", "")
    assert "tokenizer.json" in (site / "index.html").read_text(encoding="utf-8")
    done = hf_sgpe("playground", saved, "--name", "a", "--baseline", f"a={saved}", "--out", site, code=2)
    assert done.stderr.startswith(
        "error: two tokenizers have the same name on the page: give them different names with --name and --baseline"
    )


def test_a_page_is_a_folder(refuses):
    refuses("playground tok --out a/page.html", r"page\.html: the page is a folder of files: give .* such as a/page$")
