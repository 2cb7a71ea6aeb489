"""The text that a reader of an HTML page sees."""
import html.parser
import pathlib
import shutil
import subprocess

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_SECONDS = 60


class Text(html.parser.HTMLParser):
    """Collects character data outside of scripts and styles."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.hidden, self.parts = None, []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "style"):
            self.hidden = tag

    def handle_endtag(self, tag):
        if tag == self.hidden:
            self.hidden = None

    def handle_data(self, data):
        if self.hidden is None:
            self.parts.append(data)


def text_of(page: pathlib.Path) -> str:
    """The text as written and, where a browser is there, as its scripts made it."""
    written = text(page.read_text(encoding="utf-8"))
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return written
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
        "--dump-dom", page.resolve().as_uri(),
    ]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=BROWSER_SECONDS
    )
    return written + "\n" + text(done.stdout.decode(errors="replace"))


def text(markup: str) -> str:
    reader = Text()
    reader.feed(markup)
    reader.close()
    return "".join(reader.parts)
