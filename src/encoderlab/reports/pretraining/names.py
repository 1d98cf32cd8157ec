"""The names in reports of the baselines for a pretrained encoder, and of the task on pairs."""

BASELINE_NAMES = {
    "most_frequent_token": "always the most frequent token",
    "unigram": "each token as often as in training",
    "majority": "always the most frequent label",
    "word_overlap": "words that both texts share",
    "length": "lengths of both texts",
}
PAIR_QUESTIONS = {"next": "NSP", "swapped": "sentence order"}  # the name of the figures nsp_* for each task
