"""Texts that tokenizers are trained on, and awkward ones that they read."""

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


TEXTS = [
    "The quick brown fox jumps over the lazy dog, and the dog barks.",
    "Tokenizers split words into pieces: unbelievable, believable, unbelieving!",
    "Crème brûlée costs 12.50 in Zürich; 東京 is far away. Don't ask why.",
    "Pieces that occur often are merged; pieces that occur once are not.",
] * 5


AWKWARD = [
    "",
    "   ",
    "hello world",
    "Héllo WÖRLD",
    "don't stop-believing",
    "東京 tower",
    "a\u200bb\x00c\tnew\nline",
    "antidisestablishmentarianism" * 5,
    "😀 emoji",
    "#hash ##ing ## #",
    "1,234.56%",
]
