"""A classifier of PyTorch's own layers in the plain loop of a tutorial: nn.TransformerEncoder, a DataLoader, Adam."""

from __future__ import annotations

from itertools import chain, islice, repeat

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import DataCollatorWithPadding

from benchmarks.peers.data import LENGTH, SIZES, arguments, training_data
from benchmarks.peers.watched import Meter


class Classifier(nn.Module):
    """Embeddings, nn.TransformerEncoder, a linear map of the first token's vector."""

    def __init__(self, vocabulary_size: int, size: tuple[int, int, int, int], n_labels: int) -> None:
        super().__init__()
        n_layers, d_model, n_heads, d_ff = size
        self.token = nn.Embedding(vocabulary_size, d_model)
        self.position = nn.Embedding(LENGTH, d_model)
        layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, n_layers)
        self.head = nn.Linear(d_model, n_labels)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        embedded = self.token(input_ids) + self.position(torch.arange(input_ids.shape[1]))
        return self.head(self.encoder(embedded, src_key_padding_mask=attention_mask == 0)[:, 0])


def main() -> None:
    """Train, and print the speed."""
    options = arguments(__doc__)
    data = training_data(options)
    encoded = data.tokenizer(data.texts, truncation=True, max_length=LENGTH, return_token_type_ids=False)
    rows = [
        {"input_ids": ids, "attention_mask": mask, "labels": label}
        for ids, mask, label in zip(encoded["input_ids"], encoded["attention_mask"], data.labels, strict=True)
    ]
    loader = DataLoader(rows, options.batch, shuffle=True, collate_fn=DataCollatorWithPadding(data.tokenizer))
    model = Classifier(len(data.tokenizer), SIZES[options.size], data.n_labels)
    optimizer, criterion, meter = torch.optim.Adam(model.parameters(), 1e-3), nn.CrossEntropyLoss(), Meter()
    for batch in islice(chain.from_iterable(repeat(loader)), options.steps):
        optimizer.zero_grad()
        loss = criterion(model(batch["input_ids"], batch["attention_mask"]), batch["labels"])
        loss.backward()
        optimizer.step()
        loss.item()
        meter.step(len(batch["labels"]), batch["attention_mask"].sum())
    meter.result(peer="plain_loop")


if __name__ == "__main__":
    main()
