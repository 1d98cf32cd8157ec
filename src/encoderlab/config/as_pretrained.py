"""The model settings of a run that takes its encoder, size and shape and all, from a pretrained one.

`model=as_pretrained` and `tokenizer=as_pretrained` are ordinary members of their groups that take their values from `init_from`.
"""

from dataclasses import dataclass, fields, replace

from encoderlab.errors import SettingError
from encoderlab.model.config import ModelChoice, ModelConfig, Pairs, Pooling, check_reach
from encoderlab.settings import check_settings, setting


@dataclass
class AsPretrained(ModelChoice):
    """The pretrained encoder's own settings, save those that are given here."""

    max_length: int | None = setting(
        None,
        "Longest sequence, special tokens included; null or auto: as 99% of the training rows need (pretrain: as pretrained).",
        least=1,
        most=1048576,
    )
    pooling: Pooling | None = setting(
        None, "What stands for a whole sequence: cls, mean, max, pooler or relu_pooler; null: as trained for labels, else mean."
    )
    pairs: Pairs | None = setting(
        None,
        "How a pair of texts is read: joint (as one sequence) or separate (each by itself, then compared); null: separate from an "
        "encoder trained for sentence vectors, else joint.",
    )
    dropout: float | None = setting(None, "Dropout of embeddings, sublayers and heads; null: as pretrained.", least=0, most=0.9)
    attention_dropout: float | None = setting(None, "Dropout of attention weights; null: as pretrained.", least=0, most=0.9)
    word_dropout: float | None = setting(None, "Dropout of whole token embeddings; null: as pretrained.", least=0, most=0.9)

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    def resolve(self, pretrained: ModelConfig | None) -> ModelConfig:
        """See `ModelChoice.resolve`. With rotary or sinusoidal positions `max_length` may be more than in pretraining.

        Where it is null, that is left to the rows.
        """
        if pretrained is None:
            raise SettingError(
                "model=as_pretrained needs init_from, the encoder to start from",
                remedy="Set init_from=... (encoderlab finetune or pretrain), or another model such as model=mini",
            )
        changes = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        given = {name: value for name, value in changes.items() if value is not None}
        resolved = replace(pretrained, **given | {"max_length": self.max_length})
        check_reach(resolved.max_length, pretrained)
        return resolved
