"""The model settings of a run whose encoder comes from a pretrained one, with its size and shape.

`model=as_pretrained` and `tokenizer=as_pretrained` are ordinary options of their groups that take their values from
`init_from`.
"""

from dataclasses import dataclass, fields, replace

from encoderlab.errors import SettingError
from encoderlab.model.config import ModelChoice, ModelConfig, Pairs, Pooling, check_reach
from encoderlab.settings import check_settings, setting


@dataclass
class AsPretrained(ModelChoice):
    """The pretrained encoder's own settings, except for those given here."""

    max_length: int | None = setting(
        None,
        "Longest sequence, with special tokens; null or auto: long enough for 99% of the training rows (pretrain: as pretrained).",
        least=1,
        most=1048576,
    )
    pooling: Pooling | None = setting(
        None,
        "Pooling of a sequence: cls, mean, max, pooler or relu_pooler; null: as trained if trained on labels, otherwise mean.",
    )
    pairs: Pairs | None = setting(
        None,
        "How a pair of texts is read: joint (as one sequence) or separate (each by itself, then compared); null: separate for an "
        "encoder trained for sentence vectors, otherwise joint.",
    )
    dropout: float | None = setting(
        None, "Dropout of embeddings, sublayers and heads; null: as pretrained.", least=0, most=0.9
    )
    attention_dropout: float | None = setting(
        None, "Dropout of attention weights; null: as pretrained.", least=0, most=0.9
    )
    word_dropout: float | None = setting(
        None, "Dropout of whole token embeddings; null: as pretrained.", least=0, most=0.9
    )

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    def resolve(self, pretrained: ModelConfig | None) -> ModelConfig:
        """See `ModelChoice.resolve`. With rotary or sinusoidal positions, `max_length` may be larger than in
        pretraining.

        If it is null, the rows decide.
        """
        if pretrained is None:
            raise SettingError(
                "model=as_pretrained needs init_from=..., the encoder to start from",
                remedy="Set init_from=... (encoderlab finetune or pretrain), or another model such as model=mini",
            )
        changes = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        given = {name: value for name, value in changes.items() if value is not None}
        resolved = replace(pretrained, **given | {"max_length": self.max_length})
        check_reach(resolved.max_length, pretrained)
        return resolved
