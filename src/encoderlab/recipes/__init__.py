"""What only some runs do: finetuning, distillation, contrastive pretraining."""
