"""An encoder of transformers in the place of ours, for the types of models that ours cannot be.

It computes all tokens of a padded batch in every layer: neither padding nor what nothing reads is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.network.attention import formula_is_faster
from encoderlab.network.config import TransformersConfig
from encoderlab.network.layers import Compilable, NothingDrawn
from encoderlab.network.packing import Ids, Mask, Selection, Tokens, attendable

CODE = ("auto_map", "use_kernels", "kernel_config")  # fields of config.json that choose what computes the encoder
# The settings of ours that take effect in such an encoder too, by their names in nearly every config.json.
OURS = {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}


def transformers_config(fields: dict[str, Any]) -> Any:
    """Return the config of transformers that has these fields, of which `model_type` names its class.

    Those that choose code are left out: a model in our own format may be a stranger's, too.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[fields["model_type"]].from_dict(without_code(fields))


def without_code(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a config.json, and of those within it, that do not choose code of the folder or the hub."""
    kept = {}
    for name, value in fields.items():
        chooses_code = name.startswith("_") or name.endswith("_implementation") or name in CODE
        if not chooses_code:
            kept[name] = without_code(value) if isinstance(value, dict) else value
    return kept


class TransformersEncoder(Compilable):
    """The encoder that AutoModel makes of the settings' config.json: ids in, one vector per token out.

    It has the interface of `Encoder`. Its weights are always loaded: here they have memory with any content or, on the
    meta device, none. `max_length` is the most tokens that its positions reach. A pooler of its own is left out.
    """

    is_drawn = False

    def __init__(self, config: TransformersConfig, vocabulary_size: int, pad_id: int) -> None:  # noqa: ARG002
        super().__init__()
        where = torch.get_default_device()
        self.model: Any = _built(config)
        if getattr(self.model, "pooler", None) is not None:
            self.model.pooler = nn.Identity()
        if config.name == "longformer":
            _read_contiguous(self.model)
        if where.type == "meta":
            _forget_weights(self.model)
        self.n_segments = n_segments(self.model)
        self.max_length = reach(self.model)
        self.first_is_global = False
        self.attention_dropout = config.attention_dropout
        self.usual_attention: str = self.model.config._attn_implementation
        self.model_type = config.name

    def forward(
        self, input_ids: Ids, token_type_ids: Ids, attention_mask: Mask | None
    ) -> Float[Tensor, "batch length d_model"]:
        """Return the vector of each token. `attention_mask` is True at real tokens; None means no padding."""
        device = input_ids.device
        dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else torch.float32
        self._attend_by(self._implementation(device, dtype, self.attention_dropout if self.training else 0.0))
        return self.model(**self._inputs(input_ids, token_type_ids, attention_mask)).last_hidden_state

    def encode(
        self,
        input_ids: Ids,
        token_type_ids: Ids,
        attention_mask: Mask | None,
        n_tokens: int | None = None,  # noqa: ARG002
        selection: Selection | None = None,
    ) -> Float[Tensor, "*targets d_model"]:
        """Return the same vectors, or those of the selected tokens: [targets, d_model], or [batch, first, d_model] for
        the first tokens of each sequence.
        """
        hidden = self(input_ids, token_type_ids, attention_mask)
        if selection is None:
            return hidden
        if selection.positions is None:
            return hidden[:, : selection.most]
        return hidden.flatten(0, 1).index_select(0, selection.positions)

    def hidden_states(self, input_ids: Ids, token_type_ids: Ids, attention_mask: Mask | None) -> list[Tokens]:
        """Return the vectors of all tokens that enter the first layer, and those that leave each layer."""
        inputs = self._inputs(input_ids, token_type_ids, attention_mask)
        return list(self.model(**inputs, output_hidden_states=True).hidden_states)

    def attention_maps(
        self, input_ids: Ids, token_type_ids: Ids, attention_mask: Mask | None
    ) -> list[Float[Tensor, "batch heads length length"]]:
        """Return the attention weights of every layer, lowest first. Raises SettingError if the model gives none."""
        length = input_ids.shape[1]
        self._attend_by("eager")  # the others do not compute weights
        maps = self.model(**self._inputs(input_ids, token_type_ids, attention_mask), output_attentions=True).attentions
        if not maps or any(each.shape[-2:] != (length, length) for each in maps):
            problem = f"A model of type {self.model_type} gives no attention weights"
            raise SettingError(problem, remedy="Use encoderlab explain, which needs none")
        return list(maps)

    def _inputs(self, input_ids: Ids, token_type_ids: Ids, attention_mask: Mask | None) -> dict[str, Any]:
        mask = attendable(attention_mask)
        inputs: dict[str, Any] = {
            "input_ids": input_ids,
            "attention_mask": torch.ones_like(input_ids) if mask is None else mask.to(torch.int64),
            "return_dict": True,
        }
        if self.n_segments:
            inputs["token_type_ids"] = token_type_ids
        if self.first_is_global:
            first = torch.arange(input_ids.shape[1], device=input_ids.device) == 0
            inputs["global_attention_mask"] = first.to(torch.int64).expand_as(input_ids)
        return inputs

    def classify_by_first_token(self) -> None:
        """Let the first token attend to all others, and be attended to by all, where that is a choice (Beltagy et al.
        2020, section 3.1): transformers' own classifiers do.
        """
        self.first_is_global = "global_attention_mask" in signature(self.model.forward).parameters

    @property
    def token_table(self) -> nn.Parameter:
        """Return the embedding of each token of the vocabulary."""
        return self.model.get_input_embeddings().weight

    @property
    def layers(self) -> list[nn.Module]:
        """Return the layers, lowest first; one that is used several times, as in ALBERT, is there once."""
        return list(stack(self.model))

    def parameters_by_depth(self) -> list[list[nn.Parameter]]:
        """Return the parameters of each layer from the lowest, after those of everything else."""
        layers = [list(layer.parameters()) for layer in self.layers]
        in_layers = {id(parameter) for layer in layers for parameter in layer}
        return [[parameter for parameter in self.parameters() if id(parameter) not in in_layers], *layers]

    def packs(self, input_ids: Ids, n_tokens: int) -> bool:  # noqa: ARG002
        """Return that padding is always computed."""
        return False

    def attention_kernel(self, device: torch.device, dtype: torch.dtype, dropout: float) -> str:
        """Return in words what computes attention."""
        return f"by transformers ({self._implementation(device, dtype, dropout)})"

    def _implementation(self, device: torch.device, dtype: torch.dtype, dropout: float) -> str:
        """Return which of transformers' implementations is faster: on a CPU in bfloat16, a training step of ALBERT (256
        wide, 128 tokens) took 0.16 s by PyTorch's kernel and 0.08 s by the formula.
        """
        return "eager" if formula_is_faster(device, dtype, dropout) else self.usual_attention

    def _attend_by(self, implementation: str) -> None:
        if self.model.config._attn_implementation != implementation:
            self.model.set_attn_implementation(implementation)


def _built(config: TransformersConfig) -> Any:
    """Return the model of transformers. Raises DataError if it cannot be built, as by an older version."""
    from transformers.models.auto.modeling_auto import AutoModel

    try:
        theirs = transformers_config(config.transformers)
        if getattr(theirs, "attention_type", None) == "block_sparse":
            # BigBird's class leaves sparse attention for good at its first short batch, so it never begins with it.
            theirs.attention_type = "original_full"
        for ours, name in OURS.items():
            if hasattr(theirs, name):
                setattr(theirs, name, getattr(config, ours))
        # Its tables without parameters are computed now: on the meta device, nothing would fill them later.
        with torch.device("cpu"), NothingDrawn():
            return AutoModel.from_config(theirs, dtype=torch.float32)
    except (RuntimeError, MemoryError):  # there is too little memory
        raise
    except Exception as error:  # of any kind: every class checks its own settings
        problem = (
            f"transformers {version('transformers')} cannot build this {config.name}: {one_line(str(error))[:200]}"
        )
        raise DataError(problem, remedy="Install the version with which it was trained") from None


def n_segments(model: Any) -> int:
    """Return how many token types a model distinguishes; 0: none, or it does not take them."""
    types = getattr(model.config, "type_vocab_size", 0) or 0
    return types if types > 1 and "token_type_ids" in signature(model.forward).parameters else 0


def reach(model: Any) -> int:
    """Return how many tokens have positions: as RoBERTa counts, none reads the rows up to the padding's id."""
    tables = [module for name, module in model.named_modules() if name.rpartition(".")[2] == "position_embeddings"]
    padding = getattr(tables[0], "padding_idx", None) if tables else None
    return model.config.max_position_embeddings - (0 if padding is None else padding + 1)


def stack(model: Any) -> nn.ModuleList:
    """Return the list of modules with the most parameters, which is that of the layers."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module)]
    return max(lists, key=lambda each: sum(parameter.numel() for parameter in each.parameters()))


def _read_contiguous(model: nn.Module) -> None:
    """Let linear layers read contiguous vectors.

    Longformer's attention transposes them. Where weights need no gradient, PyTorch then multiplies by a copy of
    them for each position: in bf16, predictions took 3.6 to 7 times as long as in fp32.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(_contiguous)


def _contiguous(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(each.contiguous() for each in inputs)


def _forget_weights(model: nn.Module) -> None:
    """Replace the parameters by ones of the same shapes without memory; the tables keep their content."""
    empty: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            shape = empty.setdefault(id(parameter), nn.Parameter(torch.empty_like(parameter, device="meta")))
            setattr(module, name, shape)
