"""SFT alone on UltraTool, with as many updates as all stages of the full method together."""

import dataclasses

from smollm2_135m import config as full

from graft_jax.config import Config

_UPDATES = 106 + 300 + 760 + 95  # grounding, edges, SFT and distillation of the full method
_UPDATES_AN_EPOCH = 190

config: Config = dataclasses.replace(
    full,
    run="runs/smollm2_135m_sft",
    grounding=dataclasses.replace(full.grounding, enabled=False),
    edges=dataclasses.replace(full.edges, enabled=False),
    distill=dataclasses.replace(full.distill, enabled=False),
    sft=dataclasses.replace(full.sft, epochs=_UPDATES / _UPDATES_AN_EPOCH, teacher_share=0.0),
)
