"""SmolLM2-135M-Instruct on UltraTool, the full method; two CPU cores are enough."""

from graft_jax.config import Config, Distill, Edges, Optimizer, Sft

config = Config(
    run="runs/smollm2_135m",
    data="data/ultratool",
    backbone="backbones/smollm2-135m",
    # Settings were chosen on the validation split while it was left out of training; the run that
    # is scored on the test split trains on it too. `--no-train-on-validation` leaves it out.
    train_on_validation=True,
    # 300 steps recover edges with AUC .98 at these rates; 150 steps at 3e-4 for both with .83.
    edges=Edges(steps=300, optimizer=Optimizer(lora_rate=1e-3, rows_rate=3e-3)),
    # The teacher's prompt is four times as long as a student's; a twentieth of the examples is
    # enough for reading it. With word dropout and the fourth epoch that pays for, validation EM
    # after SFT rises from 57.4 to 59.0.
    sft=Sft(epochs=4.0, teacher_share=0.05, word_dropout=0.1),
    # Validation EM rises in the first half of an epoch (59.0 to 59.4) and falls in the second
    # (58.4): the student grows surer of the training plans than they deserve.
    distill=Distill(
        epochs=0.5, word_dropout=0.1, optimizer=Optimizer(lora_rate=1e-4, rows_rate=1e-4)
    ),
)
