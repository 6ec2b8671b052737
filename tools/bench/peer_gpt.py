"""The PyTorch GPT that ours is compared with: nanoGPT's model and configuration, in little code.

Written to be fast in eager PyTorch (fused attention, fused AdamW, one product for q, k and v), since a comparison with
a slow peer would mean nothing. Shared by peer_pytorch.py (speed and final loss) and parity_pytorch.py (same weights,
same batches, same losses).
"""

import dataclasses
import hashlib
import math
import os
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F

TINY_SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


@dataclasses.dataclass
class Preset:
    """A model and how it is trained. The names and values are those of `gptlite train --preset`."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    batch_size: int
    dropout: float
    steps: int
    vocab_size: int = 65
    bias: bool = False  # in every Linear and LayerNorm, but see qkv_bias
    qkv_bias: bool = False
    tie_weights: bool = True
    lr: float = 1e-3
    min_lr: float = 1e-4
    warmup_steps: int = 100
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.1
    grad_clip: float = 1.0
    sampled_eval_batches: int = 200


GPT_LITE = dict(n_layer=12, n_head=12, n_embd=768, bias=True, tie_weights=False, lr=6e-4, min_lr=6e-5, beta2=0.95)
PRESETS = {
    "nano-cpu": Preset(4, 4, 128, block_size=64, batch_size=12, dropout=0.0, steps=2000, sampled_eval_batches=20),
    "nano": Preset(6, 6, 384, block_size=256, batch_size=64, dropout=0.2, steps=5000),
    "width-768": Preset(**GPT_LITE, block_size=512, batch_size=2, dropout=0.0, steps=2000),
    "gpt-lite": Preset(**GPT_LITE, block_size=2048, batch_size=1, dropout=0.1, steps=2000),
    "gpt2": Preset(
        12,
        12,
        768,
        block_size=1024,
        batch_size=12,
        dropout=0.0,
        steps=2000,
        vocab_size=50304,
        bias=True,
        qkv_bias=True,
        lr=6e-4,
        min_lr=6e-5,
        beta2=0.95,
    ),
}


class LayerNorm(nn.Module):
    """nn.LayerNorm with a bias that can be left out."""

    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.heads, self.dropout = p.n_head, p.dropout
        self.c_attn = nn.Linear(p.n_embd, 3 * p.n_embd, bias=p.qkv_bias)
        self.c_proj = nn.Linear(p.n_embd, p.n_embd, bias=p.bias)

    def forward(self, x):
        B, T, C = x.shape
        # (B, T, 3C) -> three times (B, H, T, D)
        q, k, v = (
            third.view(B, T, self.heads, C // self.heads).transpose(1, 2) for third in self.c_attn(x).split(C, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        y = self.c_proj(y.transpose(1, 2).reshape(B, T, C))
        return F.dropout(y, self.dropout, self.training)


class Mlp(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.dropout = p.dropout
        self.c_fc = nn.Linear(p.n_embd, 4 * p.n_embd, bias=p.bias)
        self.c_proj = nn.Linear(4 * p.n_embd, p.n_embd, bias=p.bias)

    def forward(self, x):
        return F.dropout(self.c_proj(F.gelu(self.c_fc(x))), self.dropout, self.training)


class Block(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(p.n_embd, p.bias), CausalSelfAttention(p)
        self.ln_2, self.mlp = LayerNorm(p.n_embd, p.bias), Mlp(p)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p
        self.wte = nn.Embedding(p.vocab_size, p.n_embd)
        self.wpe = nn.Embedding(p.block_size, p.n_embd)
        self.h = nn.ModuleList([Block(p) for _ in range(p.n_layer)])
        self.ln_f = LayerNorm(p.n_embd, p.bias)
        self.lm_head = nn.Linear(p.n_embd, p.vocab_size, bias=False)
        if p.tie_weights:
            self.lm_head.weight = self.wte.weight
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):  # what is added to the residual stream, 2 * n_layer times
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * p.n_layer))
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids):
        """ids (B, T) -> logits (B, T, V)"""
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        x = F.dropout(x, self.p.dropout, self.training)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def loss_of(model, x, y, reduction="mean"):
    logits = model(x)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1), reduction=reduction)


def make_optimizer(model, p):
    """AdamW that decays matrices and embeddings only."""
    parameters = list(model.parameters())
    groups = [
        {"params": [q for q in parameters if q.dim() >= 2], "weight_decay": p.weight_decay},
        {"params": [q for q in parameters if q.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=p.lr, betas=(p.beta1, p.beta2), eps=1e-8, fused=True)


def learning_rate(step, p):
    """The learning rate of step 0, 1, ...: linear warm-up, then half a cosine from lr to min_lr."""
    if step < p.warmup_steps:
        return p.lr * (step + 1) / (p.warmup_steps + 1)
    if step >= p.steps:
        return p.min_lr
    done = (step - p.warmup_steps) / (p.steps - p.warmup_steps)
    return p.min_lr + 0.5 * (1 + math.cos(math.pi * done)) * (p.lr - p.min_lr)


def train_step(model, optimizer, x, y, rate, p, autocast):
    """One whole step; returns the loss and the gradient's norm before clipping, as tensors."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    with autocast():
        loss = loss_of(model, x, y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), p.grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach(), norm


def parameter_count(model):
    return sum(q.numel() for q in model.parameters())


def flops_per_token(model, p):
    """nanoGPT's estimate (PaLM, appendix B): 6 per parameter except the positions', and 12 L C T for attention."""
    return 6 * (parameter_count(model) - model.wpe.weight.numel()) + 12 * p.n_layer * p.n_embd * p.block_size


def load_tiny_shakespeare(path=None):
    """Ids of the first 90 % and of the rest of the characters, as nanoGPT splits them: 1,003,854 and 111,540."""
    if path is None:
        folder = os.environ.get("TESSERA_DATA")
        if folder is None:
            raise SystemExit("give --data FILE or set TESSERA_DATA to the folder that holds tiny-shakespeare/input.txt")
        path = pathlib.Path(folder) / "tiny-shakespeare" / "input.txt"
    content = pathlib.Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != TINY_SHAKESPEARE_SHA256:
        raise SystemExit(f"{path}: not tiny Shakespeare (its sha256 differs)")
    text = content.decode()
    index = {character: i for i, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([index[character] for character in text])
    cut = int(len(ids) * 0.9)
    return ids[:cut], ids[cut:]


def random_batch(ids, p, generator):
    """x and y (B, T): windows at random offsets, y one character further."""
    offsets = torch.randint(len(ids) - p.block_size, (p.batch_size,), generator=generator)
    windows = torch.stack([ids[o : o + p.block_size + 1] for o in offsets.tolist()])
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


@torch.no_grad()
def whole_validation_loss(model, ids, p):
    """The mean of -log p over every target of `ids` but the first character, each once.

    Window w reads ids[wT .. wT+T-1] and predicts ids[wT+1 .. wT+T]; windows follow one another without overlap,
    and the last is shorter. The sum is taken in f64.
    """
    model.eval()
    T, total, count = p.block_size, 0.0, 0
    full = (len(ids) - 1) // T
    windows = [(ids[: full * T].view(full, T), ids[1 : full * T + 1].view(full, T))]
    if full * T < len(ids) - 1:
        windows.append((ids[full * T : -1][None], ids[full * T + 1 :][None]))
    for xs, ys in windows:
        for x, y in zip(xs.split(64), ys.split(64)):
            total += loss_of(model, x, y, reduction="none").double().sum().item()
            count += y.numel()
    model.train()
    assert count == len(ids) - 1
    return total / count


@torch.no_grad()
def sampled_validation_loss(model, ids, p, generator):
    """nanoGPT's estimate: the mean loss of some random batches."""
    model.eval()
    losses = [loss_of(model, *random_batch(ids, p, generator)).item() for _ in range(p.sampled_eval_batches)]
    model.train()
    return sum(losses) / len(losses)
