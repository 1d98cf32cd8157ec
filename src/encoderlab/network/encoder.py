"""The encoder: embeddings, then a stack of layers (paper, figure 1, left half; BERT)."""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from encoderlab.network.attention import MultiHeadAttention, attention_kernel
from encoderlab.network.config import ModelConfig, NormPosition
from encoderlab.network.layers import Compilable, Dropout, FeedForward, RelativePositions, build_norm, build_positions
from encoderlab.network.packing import Ids, Layout, Mask, SelectedTokens, Selection, Tokens, worth_packing

SelectedVectors = Float[Tensor, "*targets d_model"]  # of the selected tokens
AttentionMap = Float[Tensor, "batch heads length length"]  # [sequence, head, attending token, attended token]


class Embeddings(nn.Module):
    """Token (zero for padding) + position + segment embeddings (paper, sections 3.4 and 3.5; BERT, figure 2).

    Narrower embeddings than the layers are projected to their width (Lan et al. 2020, section 3.1; ELECTRA).
    """

    norm: nn.Module

    def __init__(self, config: ModelConfig, vocabulary_size: int, pad_id: int) -> None:
        super().__init__()
        width = config.embedding_width
        self.token = nn.Embedding(vocabulary_size, width, padding_idx=pad_id)
        self.position = build_positions(config)
        self.segment = nn.Embedding(config.segments, width) if config.segments else None
        self.norm = build_norm(config, width) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.projection = nn.Identity() if width == config.d_model else nn.Linear(width, config.d_model)

    def forward(
        self,
        input_ids: Int[Tensor, "*batch tokens"],
        token_type_ids: Int[Tensor, "*batch tokens"],
        positions: int | Int[Tensor, " tokens"] | None = None,
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """Return their normalised sum, as wide as the layers.

        `positions` are the tokens' positions in their sequences, or how many there are, from 0 (None: one a token).
        """
        x = self.token(input_ids)
        if self.position is not None:
            x = x + self.position(input_ids.shape[-1] if positions is None else positions)
        if self.segment is not None:
            x = x + self.segment(token_type_ids)
        return self.projection(self.dropout(self.norm(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each in a residual connection with a norm (paper, section 3.1).

    Given the vectors `x` of tokens in `layout`, it computes those of all or, faster, only of the `selected` tokens.
    """

    def __init__(self, config: ModelConfig, layer: int = 0) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config, layer)
        self.attention_norm = build_norm(config) if layer or config.first_norm else nn.Identity()
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = build_norm(config)
        self.dropout = Dropout(config.dropout)


class PostNormLayer(EncoderLayer):
    """norm(x + sublayer(x)), as in the paper and BERT."""

    def forward(self, x: Tokens, layout: Layout, selected: SelectedTokens | None = None) -> SelectedVectors:
        residual = x if selected is None else selected.pick(x)
        x = self.attention_norm(residual + self.dropout(self.attention(x, layout, selected)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))

    def attention_map(self, x: Tokens, layout: Layout) -> AttentionMap:
        return self.attention.weights(x, layout)


class PreNormLayer(EncoderLayer):
    """x + sublayer(norm(x)): gradients reach every layer undiminished (Xiong et al. 2020, figure 1b)."""

    def forward(self, x: Tokens, layout: Layout, selected: SelectedTokens | None = None) -> SelectedVectors:
        residual = x if selected is None else selected.pick(x)
        x = residual + self.dropout(self.attention(self.attention_norm(x), layout, selected))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))

    def attention_map(self, x: Tokens, layout: Layout) -> AttentionMap:
        return self.attention.weights(self.attention_norm(x), layout)


LAYERS = {NormPosition.post: PostNormLayer, NormPosition.pre: PreNormLayer}


class Encoder(Compilable):
    """Ids in, one vector per token out. Pre-norm layers do not normalise their sum: one more norm follows the last."""

    is_drawn = True  # its weights may be drawn, and not only be loaded

    def __init__(self, config: ModelConfig, vocabulary_size: int, pad_id: int) -> None:
        super().__init__()
        self.max_length = config.reach
        self.embeddings = Embeddings(config, vocabulary_size, pad_id)
        layers = nn.ModuleList(LAYERS[config.norm_position](config, n) for n in range(config.n_layers))
        self.layers = cast("Sequence[PostNormLayer | PreNormLayer]", layers)
        buckets = config.relative_buckets
        self.relative = RelativePositions(buckets, config.n_heads) if buckets else None
        self.final_norm = build_norm(config) if config.norm_position is NormPosition.pre else nn.Identity()

    def forward(
        self, input_ids: Ids, token_type_ids: Ids, attention_mask: Mask | None
    ) -> Float[Tensor, "batch length d_model"]:
        """Return the vector of each token. `attention_mask` is True at real tokens; None means no padding."""
        layout = self._layout(input_ids, attention_mask)
        x = self.embeddings(input_ids, token_type_ids)
        for layer in self.layers:
            x = layer(x, layout)
        return self.final_norm(x)

    def encode(
        self,
        input_ids: Ids,
        token_type_ids: Ids,
        attention_mask: Mask | None,
        n_tokens: int | None = None,
        selection: Selection | None = None,
    ) -> SelectedVectors:
        """Return the same vectors, faster: without computing padding, and only for the selected tokens.

        If `n_tokens` counts the real tokens of a batch with padding, all layers work on only these, and the vectors of
        padding are zeros. With a `selection` the last layer computes only its tokens, which saves a third of the time
        of two layers: [targets, d_model], or [batch, first, d_model] for the first tokens of each sequence.
        """
        layout = self._layout(input_ids, attention_mask, n_tokens)
        x = self.embeddings(layout.pack(input_ids), layout.pack(token_type_ids), layout.positions)
        *lower, last = self.layers
        for layer in lower:
            x = layer(x, layout)
        if selection is None:
            return layout.pad(self.final_norm(last(x, layout)))
        selected = SelectedTokens(selection, layout)
        return selected.restore(self.final_norm(last(x, layout, selected)))

    def hidden_states(self, input_ids: Ids, token_type_ids: Ids, attention_mask: Mask | None) -> list[Tokens]:
        """Return the vectors of all tokens that enter the first layer, and those that leave each layer; those of the
        last one with the final norm.
        """
        layout = self._layout(input_ids, attention_mask)
        x = self.embeddings(input_ids, token_type_ids)
        states = [x]
        for layer in self.layers:
            x = layer(x, layout)
            states.append(x)
        return [*states[:-1], self.final_norm(states[-1])]

    def attention_maps(self, input_ids: Ids, token_type_ids: Ids, attention_mask: Mask | None) -> list[AttentionMap]:
        """Return the attention weights of every layer, lowest first."""
        layout = self._layout(input_ids, attention_mask)
        x = self.embeddings(input_ids, token_type_ids)
        maps = []
        for layer in self.layers:
            maps.append(layer.attention_map(x, layout))
            x = layer(x, layout)
        return maps

    def classify_by_first_token(self) -> None:
        """Leave attention as it is: a classifier that reads the first token changes nothing."""

    @property
    def token_table(self) -> nn.Parameter:
        """Return the embedding of each token of the vocabulary."""
        return cast("nn.Parameter", self.embeddings.token.weight)

    @property
    def n_segments(self) -> int:
        """Return how many token types it distinguishes; 0: none."""
        return 0 if self.embeddings.segment is None else self.embeddings.segment.num_embeddings

    def parameters_by_depth(self) -> list[list[nn.Parameter]]:
        """Return the parameters of the embeddings, and of each layer from the lowest."""
        return [list(part.parameters()) for part in (self.embeddings, *self.layers)]

    def packs(self, input_ids: Ids, n_tokens: int) -> bool:
        """Return whether `encode` is faster without the padding of a batch with `n_tokens` real tokens."""
        device = input_ids.device
        dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else torch.float32
        kernel = self.layers[0].attention.has_packed_kernel(device, dtype)
        return worth_packing(n_tokens, input_ids, kernel=kernel)

    def attention_kernel(self, device: torch.device, dtype: torch.dtype, dropout: float) -> str:
        """Return in words what computes attention."""
        return attention_kernel(device, dtype, dropout, self.layers[0].attention.d_head)

    def _layout(self, input_ids: Ids, attention_mask: Mask | None, n_tokens: int | None = None) -> Layout:
        """Return a packed layout if there is padding and the number of real tokens is known, otherwise a padded one."""
        batch, length = input_ids.shape
        assert length <= self.max_length, f"truncate {length} tokens to {self.max_length} first"
        if attention_mask is None or n_tokens is None:
            layout = Layout.padded(batch, length, attention_mask)
        else:
            layout = Layout.packed(attention_mask, n_tokens)
        layout.bias = None if self.relative is None else self.relative(length)
        return layout
