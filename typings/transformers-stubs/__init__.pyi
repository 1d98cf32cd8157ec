# The names that src/ imports. The package's own __init__ imports every model for type checkers, which doubles the
# time they take.
from transformers.models.auto.tokenization_auto import AutoTokenizer as AutoTokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase as PreTrainedTokenizerBase
