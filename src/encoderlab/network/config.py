"""The model's settings: size, shape, and the choices of the paper and later work."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, ClassVar, Literal

from encoderlab.errors import SettingError
from encoderlab.settings import check_settings, setting

# The kind of target of a whole sequence: the id of one class, a 0 or 1 for each label, or a number. Their tensors are
# int64 [batch], float32 [batch, labels] and float32 [batch].
TargetKind = Literal["label", "label_set", "number", "words"]  # words: a label for each word
WindowPooling = Literal["mean", "max"]  # how the logits of a text's windows are combined
MOST_HEADS = 1024
WIDEST_HEAD = 4096
LARGEST_TABLE = 2**27  # numbers in the tables of positions, which are computed when a model is built: 512 MB


class Positions(Enum):
    """How the encoder represents the order of its tokens; see `layers.py`."""

    sinusoidal = "sinusoidal"
    learned = "learned"
    rotary = "rotary"
    none = "none"


class Norm(Enum):
    """Which normalisation a norm computes."""

    layer = "layer"
    rms = "rms"


class NormPosition(Enum):
    """Where the norms are: after each residual sum (the paper, BERT), or before each sublayer."""

    post = "post"
    pre = "pre"


class Activation(Enum):
    """The function between the two linear maps of the feed-forward network."""

    relu = "relu"
    gelu = "gelu"
    geglu = "geglu"
    gelu_tanh = "gelu_tanh"
    quick_gelu = "quick_gelu"
    silu = "silu"
    mish = "mish"
    hardswish = "hardswish"
    leaky_relu = "leaky_relu"
    relu2 = "relu2"
    relu6 = "relu6"
    sigmoid = "sigmoid"
    tanh = "tanh"


class Pooling(Enum):
    """How the vectors of a sequence's tokens are combined into one; see `heads.py`."""

    cls = "cls"
    mean = "mean"
    max = "max"
    pooler = "pooler"
    relu_pooler = "relu_pooler"
    gelu_pooler = "gelu_pooler"


class Head(Enum):
    """How the pooled vector, or a token's, becomes logits; see `heads.py`."""

    linear = "linear"
    prediction = "prediction"


class Pairs(Enum):
    """How the two texts of a pair are read: as one sequence (BERT), or each by itself."""

    joint = "joint"
    separate = "separate"


class Family(Enum):
    """The families of transformers, besides BERT and DistilBERT, that an encoder can be; see `exchange/families.py`."""

    roberta = "roberta"
    xlm_roberta = "xlm_roberta"
    camembert = "camembert"
    electra = "electra"
    mpnet = "mpnet"
    modernbert = "modernbert"


@dataclass
class ModelChoice(ABC):
    """An encoder's size and shape, given in full or taken from a pretrained encoder."""

    group: ClassVar[str] = "model"

    @abstractmethod
    def resolve(self, pretrained: "ModelConfig | None") -> "ModelConfig":
        """Return the full settings, given those of the encoder the run starts from (None: from scratch).

        `max_length` may be None: the rows will decide. Raises SettingError if the two contradict each other.
        """


@dataclass
class ModelConfig(ModelChoice):
    """An encoder's size and shape."""

    name: str = setting("custom", "Name of this model in reports.")
    n_layers: int = setting(2, "Encoder layers.", minimum=1, maximum=1000)
    d_model: int = setting(128, "Width of each token's vector.", minimum=1, maximum=65536)
    n_heads: int = setting(2, "Attention heads of each layer.", minimum=1, maximum=MOST_HEADS)
    d_head: int | None = setting(
        None, "Width of each head's queries, keys and values; null: d_model / n_heads.", minimum=1, maximum=WIDEST_HEAD
    )
    d_ff: int | None = setting(
        None, "Inner width of the feed-forward networks; null: 4 * d_model.", minimum=1, maximum=65536
    )
    d_embedding: int | None = setting(
        None,
        "Width of the embeddings, which a linear map takes to d_model (ELECTRA); null: d_model.",
        minimum=1,
        maximum=65536,
    )
    max_length: int | None = setting(
        128,
        "Longest sequence, with special tokens; null: enough for 99% of the training rows, at most 512 "
        "(pretrain: 128).",
        minimum=1,
        maximum=1048576,
    )
    positions: Positions = setting(
        Positions.learned,
        "Position encoding: sinusoidal, learned, rotary, or none: a set of tokens or, with relative_buckets, relative "
        "positions alone.",
    )
    rotary_base: float = setting(10000.0, "Base of the angles of rotary positions.", above=0)
    window: int | None = setting(
        None,
        "With local attention, how many tokens to each side a token attends to (ModernBERT: 64); null: all tokens, in "
        "every layer.",
        minimum=1,
        maximum=1048576,
    )
    window_rotary_base: float | None = setting(
        None, "Base of rotary positions in the layers with local attention; null: rotary_base.", above=0
    )
    global_every: int = setting(
        3,
        "With local attention, the first layer and each such many after it attend to all tokens.",
        minimum=1,
        maximum=1000,
    )
    relative_buckets: int = setting(
        0,
        "Buckets of distances with a learned bias on the attention scores, besides the positions above (MPNet: 32); "
        "0: none.",
        minimum=0,
        maximum=1024,
    )
    segments: int = setting(
        2, "Number of segment embeddings (2 distinguish the texts of a pair; 0: none).", minimum=0, maximum=1024
    )
    embedding_norm: bool = setting(True, "Normalise the sum of the embeddings, as BERT does.")
    norm: Norm = setting(Norm.layer, "layer or rms.")
    norm_position: NormPosition = setting(
        NormPosition.post, "post (after each residual sum) or pre (before each sublayer)."
    )
    first_norm: bool = setting(
        True, "With norm_position=pre, normalise before the attention of the first layer too; ModernBERT does not."
    )
    norm_epsilon: float = setting(1e-5, "Added to the variance before a norm divides by its root.", above=0)
    activation: Activation = setting(
        Activation.gelu,
        "relu, gelu, geglu (a gated feed-forward network), or one that pretrained encoders use: gelu_tanh, quick_gelu, "
        "silu, mish, hardswish, leaky_relu, relu2, relu6, sigmoid, tanh.",
    )
    bias: bool = setting(True, "Use biases in the linear maps and norms of the layers.")
    pooling: Pooling = setting(
        Pooling.cls,
        "Pooling of a sequence: cls (its first token), mean, max, or pooler, relu_pooler or gelu_pooler (BERT's, "
        "DistilBERT's and ELECTRA's).",
    )
    head: Head = setting(
        Head.linear,
        "What predicts labels: linear, or prediction (a linear map, GELU and a norm before the linear map, as in "
        "ModernBERT).",
    )
    pairs: Pairs = setting(
        Pairs.joint, "How a pair of texts is read: joint (as one sequence) or separate (each by itself, then compared)."
    )
    tie_decoder: bool = setting(
        True, "Predict masked tokens with the token embeddings as the decoder's weights, as BERT does."
    )
    dropout: float = setting(0.1, "Dropout of embeddings, sublayers and the heads' input.", minimum=0, maximum=0.9)
    attention_dropout: float = setting(0.0, "Dropout of attention weights.", minimum=0, maximum=0.9)
    family: Family | None = setting(
        None,
        "Family of transformers that format=huggingface writes: roberta, xlm_roberta, camembert, electra, mpnet or "
        "modernbert; null: electra if the pooling is cls, distilbert if it is relu_pooler, else bert.",
    )
    initializer_range: float | None = setting(
        None, "Standard deviation of initial weights (BERT: 0.02); null: by width.", above=0
    )

    def __post_init__(self) -> None:
        check_settings(self, self.group)
        if self.segments == 1:
            raise SettingError("model.segments is 1", allowed="0 for none, or at least 2 for pairs")
        if self.relative_buckets % 4:
            raise SettingError(f"model.relative_buckets is {self.relative_buckets}", allowed="0, or a multiple of 4")
        if self.d_head is None and self.d_model % self.n_heads:
            problem = f"model.d_model={self.d_model} is not a multiple of model.n_heads={self.n_heads}"
            raise SettingError(problem, remedy=self._fitting_heads())
        if self.positions is Positions.rotary and self.head_width % 2:
            problem = f"model.positions=rotary rotates pairs of features, but model.d_head={self.head_width} is odd"
            even = self.head_width + 1
            width = f"model.d_head={even} or " if even <= WIDEST_HEAD else ""
            raise SettingError(problem, remedy=f"Set {width}model.positions=learned")
        if self.max_length is not None and self.max_length * self._table_width > LARGEST_TABLE:
            raise SettingError(
                f"model.max_length={self.max_length} with model.positions={self.positions.value} needs tables of "
                f"{self.max_length * self._table_width:,} numbers",
                allowed=f"at most {LARGEST_TABLE:,}",
                remedy=f"Set model.max_length={LARGEST_TABLE // self._table_width} or less",
            )

    def _fitting_heads(self) -> str:
        """Return what to set so that heads fit the model's width: their number, or their own width; rotary positions
        need an even one.
        """
        step = 2 if self.positions is Positions.rotary else 1
        numbers = [n for n in range(1, MOST_HEADS + 1) if self.d_model % (n * step) == 0]
        width = -(-self.d_model // self.n_heads)
        width += width % step
        remedies = [f"model.n_heads={min(numbers, key=lambda n: abs(n - self.n_heads))}"] if numbers else []
        remedies += [f"model.d_head={width}"] if width <= WIDEST_HEAD else []
        multiple = self.n_heads * step
        return f"Set {' or '.join(remedies) or f'model.d_model={self.d_model // multiple * multiple}'}"

    def resolve(self, pretrained: "ModelConfig | None") -> "ModelConfig":
        """Return these settings, which must agree in all that pretrained weights depend on."""
        if pretrained is not None:
            if type(pretrained) is not type(self):
                raise SettingError(
                    f"model.name={self.name} cannot be the pretrained encoder, which is a {pretrained.name}",
                    remedy="Set model=as_pretrained to use the pretrained encoder's settings",
                )
            for name in AGREEING:
                mine, theirs = (_comparable(config, name) for config in (self, pretrained))
                if mine != theirs:
                    raise SettingError(
                        f"model.{name} is {mine}, but {theirs} in the pretrained encoder",
                        remedy="Set model=as_pretrained to use the pretrained encoder's settings",
                    )
            check_reach(self.max_length, pretrained)
        return self

    @property
    def shortest_computed(self) -> int:
        """Return how many tokens are computed of each sequence at least."""
        return 1

    @property
    def keeps_pooling(self) -> bool:
        """Return whether classifiers that start from such an encoder pool as its family does, trained so or not."""
        return self.family is not None

    def for_pretraining(self) -> "ModelConfig":
        """Return the settings with which such an encoder is pretrained further: it reads a pair as one sequence."""
        return replace(self, pairs=Pairs.joint)

    @property
    def _table_width(self) -> int:
        """Return how many numbers the tables of positions without parameters have for each position."""
        if self.positions is Positions.sinusoidal:
            return self.embedding_width
        return self.n_layers * self.head_width if self.positions is Positions.rotary else 0

    @property
    def head_width(self) -> int:
        """Return `d_head`, derived if it is not set."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head

    def window_of(self, layer: int) -> int | None:
        """Return how many tokens to each side the tokens of a layer attend to; None: all."""
        return self.window if layer % self.global_every else None

    def rotary_base_of(self, layer: int) -> float:
        """Return the base of a layer's rotary positions."""
        is_local = self.window_of(layer) is not None
        return self.window_rotary_base if is_local and self.window_rotary_base else self.rotary_base

    @property
    def embedding_width(self) -> int:
        """Return `d_embedding`, derived if it is not set."""
        return self.d_model if self.d_embedding is None else self.d_embedding

    @property
    def reach(self) -> int:
        """Return `max_length`, which must have been decided by now."""
        assert self.max_length is not None, "model.max_length has not been decided yet"
        return self.max_length

    @property
    def feed_forward_width(self) -> int:
        """Return `d_ff`, derived if it is not set."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff


@dataclass
class TransformersConfig(ModelConfig):
    """An encoder of transformers as it is; see `transformers_encoder.py`. The settings above say what they can of it.

    Only a folder brings it (`init_from`): no command line describes one, and none draws its weights.
    """

    transformers: dict[str, Any] = setting({}, "The content of its config.json.", internal=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self.transformers)

    @property
    def shortest_computed(self) -> int:
        """Return Longformer's window, to which it pads every sequence; 1 for others."""
        windows = self.transformers.get("attention_window", 1)
        return max(windows) if isinstance(windows, list) else windows

    @property
    def keeps_pooling(self) -> bool:
        return True

    def for_pretraining(self) -> ModelConfig:
        """Raise SettingError: there is no head of ours for its masked tokens."""
        raise SettingError(
            f"An encoder of type {self.name} can be finetuned, but not pretrained further",
            remedy="Pretrain it with transformers, or choose an encoder of another type, such as roberta or modernbert",
        )


LARGEST_SIZES = {  # in a config.json: one that is damaged, or hostile, would fill the memory
    "num_hidden_layers": 1000,
    "hidden_size": 2**16,
    "intermediate_size": 2**20,
    "max_position_embeddings": 2**20,
    "vocab_size": 2**24,
}


def check_sizes(fields: dict[str, Any]) -> None:
    """Raise SettingError for sizes of an encoder of transformers that no such encoder has."""
    for name, largest in LARGEST_SIZES.items():
        value = fields.get(name)
        if isinstance(value, int) and not 0 <= value <= largest:
            raise SettingError(f"config.json states {name}={value}", allowed=f"0 to {largest:,}")


MAY_DIFFER = (
    "name",
    "max_length",
    "pooling",
    "pairs",
    "head",
    "tie_decoder",
    "family",
    "dropout",
    "attention_dropout",
    "initializer_range",
)
# The settings that pretrained weights depend on: with other values they would mean something else, or not fit.
AGREEING = tuple(declared.name for declared in fields(ModelConfig) if declared.name not in MAY_DIFFER)


def check_reach(max_length: int | None, pretrained: ModelConfig) -> None:
    """Raise SettingError for a `max_length` beyond a pretrained encoder's learned positions; others have no limit."""
    if pretrained.positions is Positions.learned and max_length is not None and max_length > pretrained.reach:
        raise SettingError(
            f"model.max_length is {max_length}, but the pretrained encoder has only {pretrained.max_length} positions",
            remedy=f"Set model.max_length={pretrained.max_length}",
        )


def _comparable(config: ModelConfig, name: str) -> object:
    """Return a setting as it takes effect, and as a user writes it."""
    derived = {
        "d_head": config.head_width,
        "d_ff": config.feed_forward_width,
        "d_embedding": config.embedding_width,
    }
    value = derived.get(name, getattr(config, name))
    return value.value if isinstance(value, Enum) else value


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """The sizes of the heads: how many outputs a whole sequence has, and how many a token (None: no such head).

    `sequence_target` gives the kind of target of a sequence; a number has one output.

    `vocabulary` is True if tokens are predicted as entries of the vocabulary, as in masked language modelling.
    `teacher_width` is the width of the teacher's vectors to which sequences and tokens are mapped, in distillation.
    `window_pooling` says how the logits of a text's windows are combined (None: no text has several). `own_vectors` is
    True if there is no head, and the encoder's own vectors of sequences and target tokens are what is trained.
    """

    sequence_classes: int | None = None
    token_classes: int | None = None
    vocabulary: bool = False
    teacher_width: int | None = None
    sequence_target: TargetKind = "label"
    window_pooling: WindowPooling | None = None
    own_vectors: bool = False

    @property
    def judges_texts(self) -> bool:
        """Return whether whole texts get labels or a number, other than which sentences follow each other in MLM."""
        return self.sequence_classes is not None and not self.vocabulary

    @property
    def predicts_tokens(self) -> bool:
        """Return whether single tokens have targets."""
        return self.vocabulary or self.own_vectors or self.token_classes is not None


@dataclass
class AsPretrained(ModelChoice):
    """The pretrained encoder's own settings, taken from `init_from`, except for those given here."""

    max_length: int | None = setting(
        None,
        "Longest sequence; null: enough for 99% of the rows (pretrain: as pretrained).",
        minimum=1,
        maximum=1048576,
    )
    pooling: Pooling | None = setting(
        None,
        "cls, mean, max, pooler, relu_pooler, gelu_pooler; null: as trained on labels or for sentences, else mean.",
    )
    pairs: Pairs | None = setting(
        None, "How a pair is read: joint or separate; null: separate by an encoder of sentence vectors, else joint."
    )
    dropout: float | None = setting(
        None, "Dropout of embeddings, sublayers and heads; null: as pretrained.", minimum=0, maximum=0.9
    )
    attention_dropout: float | None = setting(
        None, "Dropout of attention weights; null: as pretrained.", minimum=0, maximum=0.9
    )

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    def resolve(self, pretrained: ModelConfig | None) -> ModelConfig:
        """Return the pretrained encoder's settings with those given here.

        With rotary or sinusoidal positions, `max_length` may be larger than in pretraining. If it is null, the rows
        decide.
        """
        if pretrained is None:
            remedy = "Set init_from=... (encoderlab finetune or pretrain), or another model such as model=mini"
            raise SettingError("model=as_pretrained needs init_from=..., the encoder to start from", remedy=remedy)
        own = {name: value for name, value in vars(self).items() if value is not None}
        resolved = replace(pretrained, **own | {"max_length": self.max_length})
        check_reach(resolved.max_length, pretrained)
        return resolved
