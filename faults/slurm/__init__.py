"""A Slurm cluster on one machine, and what docs/train.sbatch does there."""
