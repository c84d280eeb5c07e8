"""Make the pictures of the page for README and docs: `python docs/page_pictures.py`.

Needs Chromium and the extra `test`.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from nsys2prv.commands.analyze import analyze
from nsys2prv.page.page import page

ROOT = Path(__file__).parents[1]
PICTURES = {"page": "light", "page-dark": "dark"}
WIDTH = 1280


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "page.html"
        path.write_text(page(analyze(ROOT / "sample_reports" / "gpt-ddp"), "gpt-ddp"), encoding="utf-8")
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, scheme in PICTURES.items():
            tab = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme=scheme)
            tab.goto(path.as_uri())
            tab.wait_for_selector("html[data-ready=yes]", state="attached")
            # Threads of libraries aside, all lines of the run are in the picture.
            tab.get_by_label("other threads").uncheck()
            tab.wait_for_timeout(500)
            end = tab.evaluate("timelines[0].status.getBoundingClientRect().bottom + scrollY + 10")
            clip = {"x": 0, "y": 0, "width": WIDTH, "height": end}
            tab.screenshot(path=ROOT / "docs" / "img" / f"{name}.png", full_page=True, clip=clip)
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
