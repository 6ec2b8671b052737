"""interpolate, grid_sample, padding, rearranging of channels, and norms of groups and instances."""

import torch
import torch.nn.functional as F


def interpolate(x, *, mode, size=None, scale_factor=None, **options):
    return F.interpolate(x, size=size, scale_factor=scale_factor, mode=mode, **options)


def record_interpolate(family):
    shapes = {1: (2, 2, 5), 2: (1, 2, 4, 5), 3: (1, 1, 2, 3, 4)}
    sizes = {1: [[8], [3], [5]], 2: [[7, 8], [2, 9], [3, 3]], 3: [[3, 5, 6], [1, 2, 7]]}
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}
    for dims in (1, 2, 3):
        for mode in ["nearest", "nearest-exact", "area"] + modes[dims]:
            for size in sizes[dims]:
                case = f"{mode}_{'x'.join(str(n) for n in size)}"
                family.case("interpolate", case, interpolate, [family.normal(*shapes[dims])], mode=mode, size=size)
                if mode in modes[dims]:
                    family.case(
                        "interpolate",
                        f"{case}_corners",
                        interpolate,
                        [family.normal(*shapes[dims])],
                        mode=mode,
                        size=size,
                        align_corners=True,
                    )
            if mode == "area":
                continue
            for factor in (2.0, 1.7, 0.6):
                for recompute in (False, True):
                    family.case(
                        "interpolate",
                        f"{mode}_{dims}d_by_{factor}" + ("_recomputed" if recompute else ""),
                        interpolate,
                        [family.normal(*shapes[dims])],
                        mode=mode,
                        scale_factor=factor,
                        recompute_scale_factor=recompute,
                    )
    family.case(
        "interpolate",
        "to_one_corners",
        interpolate,
        [family.normal(1, 1, 3, 3)],
        mode="bilinear",
        size=[1, 1],
        align_corners=True,
    )


def record_grids(family):
    for dims, shape, points in [(2, (2, 2, 3, 4), (2, 3)), (3, (1, 2, 2, 3, 3), (1, 2, 2))]:
        for mode in ("bilinear", "nearest"):
            for padding in ("zeros", "border", "reflection"):
                for corners in (False, True):
                    # Irregular, and away from the places where a formula has a kink.
                    grid = family.uniform(-1.7, 1.7, shape[0], *points, dims) + 0.0137
                    family.case(
                        "grid_sample",
                        f"{dims}d_{mode}_{padding}" + ("_corners" if corners else ""),
                        lambda x, grid, mode, padding_mode, align_corners: F.grid_sample(
                            x, grid, mode, padding_mode, align_corners
                        ),
                        [family.normal(*shape), grid],
                        constant=(1,) if mode == "nearest" else (),
                        mode=mode,
                        padding_mode=padding,
                        align_corners=corners,
                    )
        for corners in (False, True):
            family.case(
                "affine_grid",
                f"{dims}d" + ("_corners" if corners else ""),
                lambda theta, size, align_corners: F.affine_grid(theta, size, align_corners),
                [family.normal(shape[0], dims, dims + 1)],
                size=list(shape),
                align_corners=corners,
            )


def record_rearranging(family):
    family.case("pixel_shuffle", "planes", F.pixel_shuffle, [family.normal(2, 8, 2, 3)], upscale_factor=2)
    family.case("pixel_shuffle", "unbatched", F.pixel_shuffle, [family.normal(9, 1, 2)], upscale_factor=3)
    family.case("pixel_unshuffle", "planes", F.pixel_unshuffle, [family.normal(2, 2, 4, 6)], downscale_factor=2)
    family.case("pixel_unshuffle", "unbatched", F.pixel_unshuffle, [family.normal(1, 3, 6)], downscale_factor=3)
    family.case(
        "channel_shuffle",
        "planes",
        lambda x, groups: torch.nn.ChannelShuffle(groups)(x),
        [family.normal(2, 6, 2, 2)],
        groups=3,
    )
    for mode in ("constant", "reflect", "replicate", "circular"):
        for case, shape, padding in [
            ("row", (2, 2, 5), [1, 3]),
            ("planes", (1, 2, 4, 3), [2, 1, 3, 0]),
            ("volumes", (1, 1, 3, 2, 3), [1, 2, 1, 0, 2, 1]),
        ]:
            family.case(
                "pad_mode",
                f"{mode}_{case}",
                lambda x, padding, mode: F.pad(x, padding, mode, 0.5 if mode == "constant" else None),
                [family.normal(*shape)],
                padding=padding,
                mode=mode,
            )
    family.case(
        "pad_mode",
        "constant_negative",
        lambda x, padding, mode: F.pad(x, padding, mode, 0.5),
        [family.normal(2, 5, 4)],
        padding=[-1, 2, 1, -2],
        mode="constant",
    )


def instance_norm(x, weight=None, bias=None, *, eps, running=False):
    running_mean = running_var = None
    if running:
        channels = x.shape[1]
        running_mean = torch.tensor([0.25 * c for c in range(channels)], dtype=x.dtype)
        running_var = torch.tensor([0.5 + 0.125 * c for c in range(channels)], dtype=x.dtype)
    return F.instance_norm(x, running_mean, running_var, weight, bias, not running, 0.1, eps)


def record_norms(family):
    def parameters(channels):
        return [family.uniform(0.5, 1.5, channels), family.normal(channels)]

    for case, shape, groups in [("planes", (2, 4, 2, 2), 2), ("one", (2, 3, 5), 1), ("each", (1, 3, 4), 3)]:
        for suffix, inputs in [("", parameters(shape[1])), ("_plain", [])]:
            family.case(
                "group_norm",
                case + suffix,
                lambda x, weight=None, bias=None, *, num_groups, eps: F.group_norm(x, num_groups, weight, bias, eps),
                [family.normal(*shape), *inputs],
                num_groups=groups,
                eps=1e-5,
            )
    for case, shape in [("row", (2, 3, 4)), ("planes", (2, 2, 2, 3)), ("volumes", (1, 2, 2, 2, 2))]:
        family.case("instance_norm", case, instance_norm, [family.normal(*shape), *parameters(shape[1])], eps=1e-5)
        family.case("instance_norm", f"{case}_plain", instance_norm, [family.normal(*shape)], eps=1e-5)
        family.case(
            "instance_norm",
            f"{case}_running",
            instance_norm,
            [family.normal(*shape), *parameters(shape[1])],
            eps=1e-5,
            running=True,
        )
    for size in (1, 2, 3, 5):
        family.case(
            "local_response_norm",
            f"size_{size}",
            F.local_response_norm,
            [family.normal(2, 4, 2, 2)],
            size=size,
            alpha=0.25,
            beta=0.75,
            k=1.5,
        )
    family.case(
        "local_response_norm", "row", F.local_response_norm, [family.normal(1, 5, 3)], size=2, alpha=0.5, beta=0.5, k=1.0
    )


def record(family):
    record_interpolate(family)
    record_grids(family)
    record_rearranging(family)
    record_norms(family)
