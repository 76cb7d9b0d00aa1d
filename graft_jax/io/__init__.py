"""Files in and out: weights, tokenizers, checkpoints, planner folders. Holds no mathematics."""
