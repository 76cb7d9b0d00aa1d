"""Made `smollm2_logits.npz` once, with transformers on PyTorch: what our forward pass must equal.

    python make_smollm2_logits.py ../../backbones/smollm2-135m smollm2_logits.npz

The folder is `data_prep/backbone.py`'s; its bfloat16 weights are widened to float32 and everything
is computed in float32. Needs PyTorch, so it is no test. Arrays (rows B, columns T, right-padded):

    ids            int32   [B, T]      token ids, 0 where padding
    mask           bool    [B, T]      True at real tokens
    top_ids        int32   [B, T, 32]  ids of the largest logits, best first; 0 at padding
    top_logits     float32 [B, T, 32]  their logits; 0 at padding
    residual       float32 [B, T, 16]  first features of what enters the last block
    logsumexp      float32 [B, T]      over all V logits; 0 at padding
    content_hash   str                 of the folder (graft_jax.io.huggingface.content_hash)
    answer         str                 greedy continuation of the first row
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOP, FEATURES = 32, 16
TURNS = (
    "What is the capital of France?",
    "Query: Cancel my 8 am alarm and move the daily one to 6:30",
    "Résumé: 2 × 3 = 6, naïve café, 東京, 😀 — tabs\tand\n\nlines",
)
PLAIN = "The quick brown fox jumps over the lazy dog, 1024 times"


def main(folder: str, out: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    rows = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": turn}], add_generation_prompt=True, return_dict=False
        )
        for turn in TURNS
    ]
    rows.append(tokenizer.encode(PLAIN, add_special_tokens=False))
    mask = np.zeros((len(rows), max(map(len, rows))), bool)
    ids = np.zeros(mask.shape, np.int32)
    top_ids = np.zeros((*mask.shape, TOP), np.int32)
    top_logits = np.zeros((*mask.shape, TOP), np.float32)
    residual = np.zeros((*mask.shape, FEATURES), np.float32)
    logsumexp = np.zeros(mask.shape, np.float32)
    with torch.no_grad():
        for b, row in enumerate(rows):  # one by one: no padding that could leak into the values
            result = model(torch.tensor([row]), output_hidden_states=True)
            best = result.logits[0].topk(TOP)
            n = len(row)
            ids[b, :n], mask[b, :n] = row, True
            top_ids[b, :n], top_logits[b, :n] = best.indices, best.values
            # hidden_states: embedding, then every block's output, the last one normed: [-2] enters
            # the last block.
            residual[b, :n] = result.hidden_states[-2][0, :, :FEATURES]
            logsumexp[b, :n] = result.logits[0].logsumexp(-1)
        greedy = model.generate(torch.tensor([rows[0]]), max_new_tokens=12, do_sample=False)
    answer = tokenizer.decode(greedy[0, len(rows[0]) :], skip_special_tokens=True)
    record = json.loads(Path(folder, "backbone.json").read_text())
    np.savez_compressed(
        out,
        ids=ids,
        mask=mask,
        top_ids=top_ids,
        top_logits=top_logits,
        residual=residual,
        logsumexp=logsumexp,
        content_hash=np.array(record["content_hash"]),
        answer=np.array(answer),
    )
    print(f"{out}: {mask.sum()} positions; greedy answer {answer!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
