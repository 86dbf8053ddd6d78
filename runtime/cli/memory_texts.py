"""How experiences are told at a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.cli import showing
from runtime.cli.admin_api import date_of
from runtime.cli.showing import fields, figures, folding, plain, words
from runtime.clock import SystemClock

_SUMMARY_CHARS = 72
_NEVER_SHOWN = {"summary", "number", "content", "is_whole", "history"}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, none: str) -> str:
    """Return rows under their headings; the last column may be folded at a terminal."""
    return showing.table((*words(*headings[:-1]), folding(headings[-1])), rows, none=none)


def listed_text(items: Sequence[dict[str, Any]], *, follows: bool) -> str:
    """Return one line for each experience."""
    rows = [_row(item) for item in items]
    headings = ("index", "learned", "kind", "lane", "standing", "summary")
    more = "There are more; --limit shows them.\n" if follows else ""
    return table(headings, rows, none="No experience is there.") + more


def found_text(answer: dict[str, Any]) -> str:
    """Return what a search found, the best first."""
    rows = [(f"{hit['score']:.2f}", *_row(hit["experience"])) for hit in answer["items"]]
    about = words("index", "learned", "kind", "lane", "standing")
    head = (*figures("score"), *about, folding("summary"))
    left = answer["left_out"]
    more = f"{left} more matched; --limit shows them.\n" if left else ""
    return showing.table(head, rows, none="Nothing was found.") + more


def content_text(one: Mapping[str, Any]) -> str:
    """Return what stands in an experience, as much as was fetched of it."""
    if one["content"] is None:
        size = f"{one['size_bytes']} bytes of {plain(one['media_type'])}"
        return f"[{size}; flyball memory show {one['index']} --content writes them]\n"
    lines = (plain(line) for line in one["content"].splitlines())
    more = "" if one["is_whole"] else "[… there is more; --content writes all of it]\n"
    return "".join(f"{line}\n" for line in lines) + more


def experience_text(one: dict[str, Any]) -> str:
    """Return the content of an experience, and everything that is known of it, a line each."""
    pairs = [("summary", f"{one['summary']} (its writer's words)")]
    for name, value in one.items():
        if name in _NEVER_SHOWN or value in (None, "", []):
            continue
        shown = date_of(value) if name.endswith("_ms") else value
        shown = ", ".join(shown) if isinstance(shown, list) else shown
        pairs.append((name.removesuffix("_ms"), str(shown)))
    history = "".join(f"{_entry_text(entry)}\n" for entry in one.get("history", ()))
    return f"{content_text(one)}\n{fields(pairs)}\n{history}"


def _entry_text(entry: Mapping[str, Any]) -> str:
    parts = (date_of(entry["at_ms"]), entry["event"], entry["standing"] or "")
    by = f"by {entry['by']}" if entry["by"] else ""
    why = f"({entry['why']})" if entry["why"] else ""
    return plain("  ".join(part for part in (*parts, by, why) if part))


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    summary = plain(item["summary"])
    if len(summary) > _SUMMARY_CHARS:
        summary = f"{summary[:_SUMMARY_CHARS]}…"
    return (
        item["index"],
        date_of(item["learned_at_ms"]),
        item["kind"],
        item["lane"],
        "expired" if _is_over(item) else item["standing"],
        summary,
    )


def _is_over(item: Mapping[str, Any]) -> bool:
    """Tell whether an experience has run out and waits for the next purge."""
    expires = item["expires_at_ms"]
    return expires is not None and expires <= SystemClock().now_ms()


def tiers_text(answer: Mapping[str, Any]) -> str:
    """Return what is in force for searches, and what other ways would have earned."""
    chooses = "what was learned chooses" if answer["in_force"] else "the usual plan is taken"
    head = f"For searches {chooses}; {answer['spoken_of']} were spoken of.\n"
    rows = [
        (
            one["name"],
            f"{one['quality']['value']:.3f}",
            f"{one['cost_microusd']['value']:.0f}",
            "-" if one["gain"] is None else _interval(one["gain"]),
        )
        for one in answer["ways"]
    ]
    return head + table(("way", "quality", "microusd", "gain"), rows, none="Too few to compare.")


def _interval(gain: Mapping[str, Any]) -> str:
    low, high = (gain["low"], gain["high"])
    around = "" if low is None or high is None else f" [{low:+.3f}, {high:+.3f}]"
    return f"{gain['value']:+.3f}{around}"


def grant_text(grant: Mapping[str, Any]) -> str:
    """Return a right with where it is from, unless an administrator granted it."""
    where = {"file": " (file)", "always": " (always)"}.get(grant["source"], "")
    return f"{grant['principal']} {grant['right']}{where}"


def granted_text(principal: str, right: str, answer: Mapping[str, Any]) -> str:
    """Return what a principal may do after a grant, and what it may do without one."""
    lines = [f"{principal} is granted {right} in {answer['name']}."]
    if not answer["is_known"]:
        lines.append(f"There is no principal {principal!r} yet: is it spelt so?")
    anyway = [
        grant_text(one)
        for one in answer["grants"]
        if one["source"] != "granted" and one["principal"] in (principal, "*")
    ]
    if anyway:
        stand = f"These stand without a grant: {', '.join(anyway)}"
        lines.append(f"{stand}; [[memory.namespace]] in flyball.toml gives those of the file.")
    return "\n".join(lines) + "\n"
