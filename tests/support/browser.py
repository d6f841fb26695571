"""Pages in a browser, if one is installed: sizes and positions of their elements, in CSS pixels."""

import html
import json
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

# A frame for each width: no window of the browser itself may be narrower than some hundred pixels.
_PAGE = """<!DOCTYPE html><body style="margin:0"><script>
const rect = element => {
  const {left, top, right, bottom} = element.getBoundingClientRect();
  return [left, top, right, bottom];
};
const measure = frame => {
  const page = frame.contentDocument, root = page.documentElement, style = frame.contentWindow.getComputedStyle;
  const shown = element => element.getClientRects().length > 0;
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT), sizes = [];
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || !shown(parent) || parent.closest("svg,style")) continue;
    sizes.push([parseFloat(style(parent).fontSize), node.data.trim().slice(0, 40)]);
  }
  const pictures = [...page.querySelectorAll(".picture")].filter(shown).map(box => {
    const inside = [...box.querySelectorAll("text, p, li, .row > span:first-child, .numbers > span")].filter(shown);
    const texts = inside.filter(text => text.textContent.trim()).map(text =>
      [text.textContent.trim(), parseFloat(style(text).fontSize), rect(text)]);
    const markers = [...box.querySelectorAll(".mark")].map(rect);
    return {frame: rect(box), texts, markers, scrolls: box.scrollWidth > box.clientWidth};
  });
  const outside = [...page.body.querySelectorAll("*")].filter(one => shown(one) && !one.closest("svg,.wide,pre")
    && one.getBoundingClientRect().right > root.clientWidth + 0.5).map(one => one.outerHTML.slice(0, 80));
  const scrolling = [...page.querySelectorAll(".wide, pre")].filter(one => shown(one)
    && one.scrollWidth > one.clientWidth + 1).map(one => one.textContent.trim().slice(0, 40));
  const range = page.createRange();
  const lines = (node, start, end) => {
    range.setStart(node, start);
    range.setEnd(node, end);
    return range.getClientRects().length;
  };
  const broken = [...page.querySelectorAll("th, th span")].filter(shown).flatMap(one => [...one.childNodes])
    .filter(one => one.nodeType === Node.TEXT_NODE).flatMap(node => [...node.data.matchAll(/[^\\s-]+/g)]
      .filter(word => lines(node, word.index, word.index + word[0].length) > 1).map(word => word[0]));
  const names = [...page.querySelectorAll(".sgpe-row[data-name]")].map(row => {
    const label = style(row, "::before"), copy = page.createElement("div");
    copy.textContent = row.dataset.name;
    copy.style = `position:absolute;width:${label.width};font:${label.font};overflow-wrap:anywhere`;
    page.body.append(copy);
    const place = [row.dataset.name, copy.scrollHeight, parseFloat(label.height), parseFloat(label.width), rect(row)];
    copy.remove();
    return place;
  });
  const [width, scrolled] = [root.clientWidth, root.scrollWidth];
  return {width, scrolled, scrolling, outside, broken, names, pictures, sizes: sizes.filter(([size]) => size)};
};
const frames = WIDTHS.map(width => {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:2000px;border:0;display:block`;
  frame.src = "PAGE";
  document.body.append(frame);
  return frame;
});
onload = () => {
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify(frames.map(measure));
  document.body.replaceChildren(result);
};
</script></body>"""


def layout(page: Path, widths: list[int], folder: Path) -> list[dict[str, Any]]:
    frames = folder / "frames.html"
    frames.write_text(_PAGE.replace("WIDTHS", json.dumps(widths)).replace("PAGE", page.resolve().as_uri()), encoding="utf-8")
    result: list[dict[str, Any]] = _result(frames.as_uri(), folder, "--allow-file-access-from-files")
    return result


def ask_page(folder: Path, script: str, *options: str) -> tuple[Any, list[str]]:
    """Run a module with the files of a page, and return its answer and the paths that the browser requested.

    Args:
        script: JavaScript that calls ``answer`` with a JSON value; it can import modules in ``folder``.
    """
    asked: list[str] = []

    class Server(SimpleHTTPRequestHandler):
        extensions_map = SimpleHTTPRequestHandler.extensions_map | {".js": "text/javascript"}

        def log_message(self, *_: Any) -> None:
            asked.append(self.path)

    show = """const answer = value => {
      const result = document.createElement("pre");
      result.id = "result";
      result.textContent = JSON.stringify(value);
      document.body.replaceChildren(result);
    };"""
    page = (
        f'<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><script type="module">{show}{script}</script></body>'
    )
    (folder / "asked.html").write_text(page, encoding="utf-8", newline="\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/asked.html"
            with TemporaryDirectory() as profile:
                # Nothing but this machine can be reached.
                rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
                return _result(address, Path(profile), rules, "--virtual-time-budget=60000", *options), asked
        finally:
            server.shutdown()
            thread.join()


def _result(address: str, folder: Path, *options: str) -> Any:
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={folder / 'profile'}", "--window-size=1600,2000", *options]
    done = subprocess.run([*command, "--dump-dom", address], capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stdout[-2000:] + done.stderr
    return json.loads(html.unescape(match[1]))
