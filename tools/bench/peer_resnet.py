#!/usr/bin/env python3
"""The PyTorch ResNet-18 that ours is compared with, and its training speed as a JSON object.

Eager PyTorch with its oneDNN convolutions, SGD with momentum (foreach), and autocast for bf16. `--memory-format
channels_last` keeps the channels innermost in every tensor, which PyTorch documents as the faster setting on CPUs.
Parameter names are torchvision's and those of models/resnet.h.

    python3 tools/bench/peer_resnet.py --steps 6 --skip 2 --dtype bf16 --memory-format channels_last
"""

import argparse
import contextlib
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class BasicBlock(nn.Module):
    def __init__(self, channels, out_channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    """He et al. 2016; `small_stem` for images of 32 x 32, else a 7x7 convolution and a max pooling."""

    def __init__(self, classes=10, width=64, blocks=(2, 2, 2, 2), small_stem=True):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False) if small_stem else nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small_stem else nn.MaxPool2d(3, 2, 1)
        channels = width
        for stage, count in enumerate(blocks):
            out_channels, layers = width << stage, []
            for block in range(count):
                layers.append(BasicBlock(channels, out_channels, 2 if stage > 0 and block == 0 else 1))
                channels = out_channels
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--skip", type=int, default=2, help="first steps that are not measured")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=32, help="rows and columns of an image")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--memory-format", choices=["contiguous", "channels_last"], default="channels_last")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--start", help="safetensors with weights, images and labels (bench_resnet --save-start)")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = ResNet()
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(options.batch_size, 3, options.size, options.size, generator=generator)
    labels = torch.randint(0, 10, (options.batch_size,), generator=generator)
    if options.start:
        from safetensors.torch import load_file

        start = load_file(options.start)
        images, labels = start.pop("images"), start.pop("labels")
        model.load_state_dict(start)
    if options.memory_format == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    autocast = (
        (lambda: torch.autocast("cpu", torch.bfloat16)) if options.dtype == "bf16" else contextlib.nullcontext
    )
    seconds, losses = [], []
    for _ in range(options.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        with autocast():
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    measured = sorted(seconds[options.skip :])
    print(
        json.dumps(
            {
                "images_per_second": options.batch_size / measured[len(measured) // 2],
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "losses": losses,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
            }
        )
    )


if __name__ == "__main__":
    main()
