"""How reports call the baselines that a pretrained encoder is compared with, and the question asked about pairs."""

BASELINE_NAMES = {
    "most_frequent_token": "always the most frequent token",
    "unigram": "each token as often as in training",
    "majority": "always the most frequent answer",
    "word_overlap": "words that both texts share",
    "length": "lengths of both texts",
}
PAIR_QUESTIONS = {"next": "NSP", "swapped": "sentence order"}  # how the figures nsp_* are called for each question
