import json
import urllib.error
import urllib.request

import pytest
from support.engines import Parrot
from support.serving import serving

from hf_sgpe import SGPEError
from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving import server
from hf_sgpe.serving.access import check_origins, read_keys
from hf_sgpe.serving.requests import Served

PAGE = "https://page.example"


@pytest.fixture
def served(chatty):
    return Served("says", TextGenerator(chatty, Parrot(chatty.encode("Yes."))), None)


def ask(running, path, record=None, method=None, **headers):
    body = None if record is None else json.dumps(record).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(running.url + path, body, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers


PREFLIGHT = {
    "method": "OPTIONS",
    "Access_Control_Request_Method": "POST",
    "Access_Control_Request_Headers": "authorization,content-type,x-stainless-lang",
}


def test_a_page_of_a_named_origin_may_ask_with_a_key(served):
    with serving(served, api_keys=["secret"], origins=[PAGE]) as running:
        status, headers = ask(running, "/completions", Origin=PAGE, **PREFLIGHT)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, PAGE)
        assert "POST" in headers["Access-Control-Allow-Methods"]
        assert headers["Access-Control-Allow-Headers"] == PREFLIGHT["Access_Control_Request_Headers"]
        json_of_page = {"Origin": PAGE, "Content_Type": "application/json"}
        status, headers = ask(running, "/completions", {"prompt": "a"}, Authorization="Bearer secret", **json_of_page)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, PAGE)
        # The page can read errors, too.
        status, headers = ask(running, "/completions", {"prompt": "a"}, **json_of_page)
        assert (status, headers["Access-Control-Allow-Origin"]) == (401, PAGE)
        for other in ("https://other.example", "http://page.example", f"{PAGE}:8443", "null"):
            status, headers = ask(running, "/completions", Origin=other, **PREFLIGHT)
            assert (status, headers["Access-Control-Allow-Origin"]) == (400, None)


def test_all_pages_may_ask_where_all_are_named_and_none_by_default(served):
    with serving(served, origins=["*"]) as running:
        status, headers = ask(running, "/models", Origin=PAGE, **PREFLIGHT)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, "*")
    with serving(served) as running:
        status, headers = ask(running, "/models", Origin=PAGE, **PREFLIGHT)
        assert (status, headers["Access-Control-Allow-Origin"]) == (405, None)
        assert ask(running, "/models", Origin=PAGE)[1]["Access-Control-Allow-Origin"] is None


def test_each_key_of_a_file_opens_the_server(served, tmp_path):
    file = tmp_path / "keys"
    file.write_text("one\n\n  two  \n", encoding="utf-8")
    with serving(served, api_keys=read_keys(file)) as running:
        statuses = [ask(running, "/models", Authorization=f"Bearer {key}")[0] for key in ("one", "two", "three", "")]
        assert statuses == [200, 200, 401, 401]
        assert ask(running, "/models")[0] == 401


def test_only_names_of_the_server_are_accepted_without_a_key(served):
    with serving(served, hosts={"localhost", "127.0.0.1", "::1", "my-machine"}) as running:
        for host in ("localhost", f"LOCALHOST:{running.port}", "127.0.0.1:1", "[::1]", "[::1]:8000", "my-machine"):
            assert ask(running, "/models", Host=host)[0] == 200, host
        for host in ("page.example", f"page.example:{running.port}", "localhost.page.example", "127.0.0.2", "[::2]:80", ""):
            assert ask(running, "/models", Host=host)[0] == 403, host
        assert ask(running, "/completions", {"prompt": "a"}, Host="page.example", Content_Type="application/json")[0] == 403
    with serving(served, hosts={"localhost"}, api_keys=["secret"]) as running:
        assert ask(running, "/models", Host="page.example")[0] == 401
        assert ask(running, "/models", Host="page.example", Authorization="Bearer secret")[0] == 200


def test_a_path_with_another_slash_is_unknown_and_nothing_leads_to_the_host_that_a_client_names(served):
    json_of_page = {"record": {"prompt": "a"}, "Content_Type": "application/json"}
    with serving(served, hosts={"localhost"}) as running:
        for host, status in (("localhost", 404), ("evil.example", 403)):
            for given in ("/completions/", json_of_page), ("/models/", {}), ("/nothing", {}):
                assert ask(running, given[0], Host=host, **given[1])[0] == status
        assert ask(running, "/completions", Host="evil.example")[0] == 403  # not 405


def test_a_server_for_this_machine_has_names_and_an_open_server_has_any():
    for host, expected in (("127.0.0.1", {"localhost", "127.0.0.1", "::1"}), ("0.0.0.0", set())):
        with server.bind(host, 0) as bound:
            assert server.hosts_of(bound, host) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n \n", "the file has no key"),
        ("one\nශ්‍රී\n", "key 2"),
        ("one two\n", "key 1"),
        (None, "no such file"),
    ],
)
def test_files_without_keys_are_refused(tmp_path, text, message):
    file = tmp_path / "keys"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(SGPEError, match=f"--api-key-file .*keys: {message}"):
        read_keys(file)


def test_origins_are_as_browsers_send_them():
    check_origins([PAGE, "http://localhost:3000", "*", "http://[::1]:80"])
    pages = ("page.example", f"{PAGE}/", f"{PAGE}/a", "HTTPS://page.example", "https://me@page.example")
    for wrong in (*pages, "ftp://page.example", "http://[", "null", ""):
        with pytest.raises(SGPEError, match=r"origin: .*https://example\.org"):
            check_origins([wrong])
