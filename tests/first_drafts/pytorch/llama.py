"""The program of ../llama.cpp in PyTorch."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    vocab: int = 65
    dim: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 344
    block: int = 128


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.hd = c.dim // c.heads
        self.wq = nn.Linear(c.dim, c.heads * self.hd, bias=False)
        self.wk = nn.Linear(c.dim, c.kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(c.dim, c.kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(c.heads * self.hd, c.dim, bias=False)
        self.register_buffer("cos_table", torch.cos(self.angles(c)))
        self.register_buffer("sin_table", torch.sin(self.angles(c)))

    @staticmethod
    def angles(c):
        inv = torch.pow(10000.0, -torch.arange(0, 32, 2) / 32)
        t = torch.arange(c.block)
        return torch.outer(t, inv)

    def rope(self, x):
        x1, x2 = x.chunk(2, -1)
        return torch.cat([x1 * self.cos_table - x2 * self.sin_table, x2 * self.cos_table + x1 * self.sin_table], -1)

    def forward(self, x):
        B, T, C = x.shape
        q = self.wq(x).view(B, T, self.c.heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, T, self.c.kv_heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, T, self.c.kv_heads, self.hd).transpose(1, 2)
        q, k = self.rope(q), self.rope(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w1 = nn.Linear(c.dim, c.hidden, bias=False)
        self.w2 = nn.Linear(c.hidden, c.dim, bias=False)
        self.w3 = nn.Linear(c.dim, c.hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1 = nn.RMSNorm(c.dim, eps=1e-6)
        self.attn = Attention(c)
        self.n2 = nn.RMSNorm(c.dim, eps=1e-6)
        self.mlp = Mlp(c)

    def forward(self, x):
        h = x + self.attn(self.n1(x))
        return h + self.mlp(self.n2(h))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.dim)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.layers)])
        self.norm = nn.RMSNorm(c.dim, eps=1e-6)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


if __name__ == "__main__":
    m = Llama(Config())
