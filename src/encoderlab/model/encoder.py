"""The encoder: embeddings, then a stack of layers (paper, figure 1, left half; BERT)."""

import math
from collections.abc import Sequence
from typing import cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from encoderlab.model.attention import MultiHeadAttention
from encoderlab.model.config import ModelConfig, NormPosition
from encoderlab.model.dropout import Dropout
from encoderlab.model.feed_forward import FeedForward
from encoderlab.model.norm import build_norm
from encoderlab.model.packing import Layout, Padded, lay_out
from encoderlab.model.positions import build_positions


class Embeddings(nn.Module):
    """Token + position + segment embeddings (paper, sections 3.4 and 3.5; BERT, figure 2).

    Padding's token embedding is and stays zero. Word dropout zeroes the embeddings of whole tokens, so that the encoder learns not
    to lean on single words.
    """

    norm: nn.Module

    def __init__(self, config: ModelConfig, vocabulary_size: int, pad_id: int) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.word_dropout = config.word_dropout
        self.token = nn.Embedding(vocabulary_size, config.d_model, padding_idx=pad_id)
        self.position = build_positions(config)
        self.segment = nn.Embedding(config.segments, config.d_model) if config.segments else None
        self.norm = build_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        input_ids: Int[Tensor, "*batch tokens"],
        token_type_ids: Int[Tensor, "*batch tokens"],
        positions: slice | Int[Tensor, " tokens"],
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """`positions` are the tokens' places in their sequence."""
        x = self.token(input_ids) * self.scale
        if self.training and self.word_dropout:
            x = F.dropout1d(x, self.word_dropout)
        if self.position is not None:
            x = x + self.position(positions)
        if self.segment is not None:
            x = x + self.segment(token_type_ids)
        return self.dropout(self.norm(x))


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each in a residual connection with a norm (paper, section 3.1).

    It answers for the `selected` tokens, after they have attended to all `tokens`, whose vectors are `x`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config)
        self.attention_norm = build_norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = build_norm(config)
        self.dropout = Dropout(config.dropout)


class PostNormLayer(EncoderLayer):
    """norm(x + sublayer(x)), as in the paper and BERT."""

    def forward(self, x: Float[Tensor, "*tokens d_model"], tokens: Layout, selected: Layout) -> Float[Tensor, "*targets d_model"]:
        x = self.attention_norm(selected.pick(x) + self.dropout(self.attention(x, tokens, selected)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))

    def attention_map(self, x: Float[Tensor, "batch length d_model"], tokens: Padded) -> Float[Tensor, "batch heads length length"]:
        return self.attention.weights(x, tokens)


class PreNormLayer(EncoderLayer):
    """x + sublayer(norm(x)): gradients reach every layer undiminished (Xiong et al. 2020, figure 1b)."""

    def forward(self, x: Float[Tensor, "*tokens d_model"], tokens: Layout, selected: Layout) -> Float[Tensor, "*targets d_model"]:
        x = selected.pick(x) + self.dropout(self.attention(self.attention_norm(x), tokens, selected))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))

    def attention_map(self, x: Float[Tensor, "batch length d_model"], tokens: Padded) -> Float[Tensor, "batch heads length length"]:
        return self.attention.weights(self.attention_norm(x), tokens)


LAYERS = {NormPosition.post: PostNormLayer, NormPosition.pre: PreNormLayer}


class Encoder(nn.Module):
    """Ids in, one vector per token out. Pre-norm layers leave their sum unnormed, so that one more norm follows the last."""

    def __init__(self, config: ModelConfig, vocabulary_size: int, pad_id: int) -> None:
        super().__init__()
        self.max_length = config.reach
        self.embeddings = Embeddings(config, vocabulary_size, pad_id)
        layers = nn.ModuleList(LAYERS[config.norm_position](config) for _ in range(config.n_layers))
        self.layers = cast("Sequence[PostNormLayer | PreNormLayer]", layers)
        self.final_norm = build_norm(config) if config.norm_position is NormPosition.pre else nn.Identity()

    def forward(
        self,
        input_ids: Int[Tensor, "batch length"],
        token_type_ids: Int[Tensor, "batch length"],
        attention_mask: Bool[Tensor, "batch length"] | None,
        first: int | None = None,
        positions: Int[Tensor, " positions"] | None = None,
        *,
        most: int | None = None,
        n_tokens: int | None = None,
    ) -> Float[Tensor, "*answers d_model"]:
        """The vector of each token: [batch, length, d_model].

        Only of the `first` tokens of each sequence, where that is given: [batch, first, d_model]; or only of those at `positions`,
        indices into the flattened tokens: [places, d_model], `most` at most in one sequence (None: each place once). The last layer
        then computes little or nothing for the others, which saves a third of the time of two layers. `attention_mask` is True at
        real tokens; None says that nothing is padding, which is faster. Where padding remains and `n_tokens` counts the real
        tokens, padding is left out of all layers, and its vectors are zeros.
        """
        assert first is None or positions is None
        batch, length = input_ids.shape
        tokens = selected = lay_out(batch, length, attention_mask, n_tokens)
        if first is not None:
            selected = tokens.first(first)
        if positions is not None:
            selected = tokens.at(positions, most or length)
        x = self.embed(input_ids, token_type_ids, tokens)
        *lower, last = self.layers
        for layer in lower:
            x = layer(x, tokens, tokens)
        return selected.unpack(self.final_norm(last(x, tokens, selected)))

    def attention_maps(
        self,
        input_ids: Int[Tensor, "batch length"],
        token_type_ids: Int[Tensor, "batch length"],
        attention_mask: Bool[Tensor, "batch length"] | None,
    ) -> list[Float[Tensor, "batch heads length length"]]:
        """The attention weights of every layer, the lowest first: [sequence, head, token that asks, token that is read]."""
        batch, length = input_ids.shape
        tokens = Padded(batch, length, attention_mask)
        x = self.embed(input_ids, token_type_ids, tokens)
        maps = []
        for layer in self.layers:
            maps.append(layer.attention_map(x, tokens))
            x = layer(x, tokens, tokens)
        return maps

    def embed(
        self, input_ids: Int[Tensor, "batch length"], token_type_ids: Int[Tensor, "batch length"], tokens: Layout
    ) -> Float[Tensor, "*tokens d_model"]:
        """What the lowest layer is given."""
        length = input_ids.shape[1]
        assert length <= self.max_length, f"a sequence of {length} tokens in a model for {self.max_length}: truncate first"
        return self.embeddings(tokens.pack(input_ids), tokens.pack(token_type_ids), tokens.positions)
