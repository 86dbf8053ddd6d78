"""What mkdocs does beyond its plugins: tagged snippets, and pages that stand elsewhere."""

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # mkdocs loads this file by its path, from wherever it stands

from docs.tools.admin_page import openapi_document  # noqa: E402

# Texts of the repository that are pages of the site too, with where they stand in it. They have
# one home, so that nobody has to keep two of them alike.
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks/running.md",
    "benchmarks/RESULTS.md": "benchmarks/results.md",
    "benchmarks/PROOF.md": "benchmarks/proof.md",
    "benchmarks/MEMORY_RANKER.md": "benchmarks/memory-ranker.md",
    "ebpf/README.md": "rooms/ebpf.md",
    "governor/README.md": "rooms/governor.md",
    "memory_store/README.md": "rooms/memory-store.md",
    "runtime/README.md": "rooms/runtime.md",
    "tool_gateway/README.md": "rooms/tool-gateway.md",
    "runtime/word_vectors/CARD.md": "rooms/word-vectors.md",
}
OPENAPI = "reference/openapi.json"
_TAGGED = re.compile(
    r"^(?P<fence> *`{3,})(?P<language>\w+) (?P<tag>run|parse)\b[^\n]*$", re.MULTILINE
)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand elsewhere in the repository."""
    for source, page in ELSEWHERE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_linked(text, source, page)))
    files.append(File.generated(config, OPENAPI, content=openapi_document()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Have a snippet's tag become a class that is shown, and links out of docs/ lead to pages."""
    tagged = _TAGGED.sub(r"\g<fence> { .\g<language> .\g<tag> }", markdown)
    return led_to_pages(tagged, page.file.src_uri)


def led_to_pages(text: str, page: str) -> str:
    """Return the text of a page of docs/ with its links to texts elsewhere leading to pages.

    In the tree a link names the file that is there, so that it works where the page lies.
    """

    def lead(link: re.Match[str]) -> str:
        target, hash_sign, anchor = link["target"].partition("#")
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path not in ELSEWHERE:
            return link[0]
        to = posixpath.relpath(ELSEWHERE[path], posixpath.dirname(page) or ".")
        return f"[{link['text']}]({to}{hash_sign}{anchor})"

    return _LINK.sub(lead, text)


def _linked(text: str, source: str, page: str) -> str:
    """Return `text` with its links leading to pages, or to nothing where there is none."""

    def lead(link: re.Match[str]) -> str:
        target, _, anchor = link["target"].partition("#")
        if "://" in target or not target:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path not in ELSEWHERE:
            return f"`{path}`" if link["text"].strip("`") == path else f"{link['text']} (`{path}`)"
        to = posixpath.relpath(ELSEWHERE[path], posixpath.dirname(page) or ".")
        return f"[{link['text']}]({to}{'#' + anchor if anchor else ''})"

    return _LINK.sub(lead, text)
