"""HTML in texts: how it is recognised, and what a page with it shows."""

import html
import re

MARKUP = re.compile("</?[a-zA-Z][^<>]*>|&(?:amp|lt|gt|quot|nbsp|#[0-9]+|#x[0-9a-fA-F]+);")
_NOT_SHOWN = re.compile(r"<!--.*?-->|<(script|style)\b[^<>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_WITHIN_WORDS = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|cite|code|dfn|em|font|i|kbd|mark|q|s|small|span|strong|sub|sup|u|var|wbr)\b[^<>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"\s*(?:</?[a-zA-Z][^<>]*>\s*)+")


def without_html(text: str) -> str:
    """Return what a page with this text shows: no tags, comments and scripts, and characters instead of their names.

    Tags that begin a new line or block become a blank. A text without HTML is returned as it is.
    """
    if MARKUP.search(text) is None and "<!--" not in text:
        return text
    shown = _NOT_SHOWN.sub(" ", text)
    shown = _WITHIN_WORDS.sub("", shown)
    shown = _TAG.sub(" ", shown)
    return html.unescape(shown).replace("\xa0", " ").strip()
