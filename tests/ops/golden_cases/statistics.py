"""Order statistics, running extremes, integrals, covariances."""

import torch

NAN, INFINITY = float("nan"), float("inf")


def record(family):
    x, cube = family.distinct(4, 6), family.distinct(2, 3, 5)
    holes = family.distinct(4, 6)
    holes[0, 1] = holes[2, 3] = holes[2, 0] = NAN
    holes[3] = NAN
    ties = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0], [2.0, 2.0, 1.0, 1.0, 5.0]], dtype=torch.float64)
    numbers = torch.tensor([[1.0, NAN, 2.0, NAN, 5.0], [INFINITY, 2.0, -INFINITY, 1.0, 0.0]], dtype=torch.float64)
    for name, function in (("cummax", torch.cummax), ("cummin", torch.cummin)):
        for dim in (0, 1):
            family.case(name, f"dim_{dim}", function, [x], dim=dim)
        family.case(name, "middle", function, [cube], dim=-2)
        family.case(name, "scalar", function, [family.normal()], dim=0)
        family.case(name, "empty", function, [family.normal(0, 3)], dim=1)
        family.case(name, "integers", function, [family.integers(-5, 5, 3, 7)], dim=1)
        family.case(name, "special", function, [numbers], forward_only=True, dim=1)
        family.case(f"{name}_kinks", "ties", function, [ties], dim=1)
    for dims, keepdim in (([0], False), ([1], True), ([0, 1], False)):
        name = f"over_{''.join(map(str, dims))}"
        family.case("nansum", name, lambda x, dims, keepdim: torch.nansum(x, dims, keepdim), [holes], dims=dims, keepdim=keepdim)
        # PyTorch's gradient of a mean of nothing is NaN.
        family.case("nanmean", name, lambda x, dims, keepdim: torch.nanmean(x, dims, keepdim), [holes[:3]], dims=dims, keepdim=keepdim)
    family.case("nanmean", "of_nothing", lambda x, dims, keepdim: torch.nanmean(x, dims, keepdim), [holes], forward_only=True, dims=[1], keepdim=False)
    for dim, keepdim in ((0, False), (1, True)):
        family.case("aminmax", f"dim_{dim}", lambda x, dim, keepdim: torch.aminmax(x, dim=dim, keepdim=keepdim), [x], dim=dim, keepdim=keepdim)
        family.case("nanmedian", f"dim_{dim}", lambda x, dim, keepdim: torch.nanmedian(x, dim, keepdim), [holes[:3]], dim=dim, keepdim=keepdim)
        family.case("mode_values", f"dim_{dim}", lambda x, dim, keepdim: torch.mode(x, dim, keepdim).values, [family.integers(0, 4, 5, 6)], dim=dim, keepdim=keepdim)
    family.case("nanmedian", "integers", lambda x, dim, keepdim: torch.nanmedian(x, dim, keepdim), [torch.tensor([[3, 1, 2, 9], [5, 8, 7, 6]])], dim=1, keepdim=False)
    family.case("nanmedian_all", "holes", torch.nanmedian, [holes])
    family.case("mode_values", "ties", lambda x, dim, keepdim: torch.mode(x, dim, keepdim).values, [ties], dim=1, keepdim=False, forward_only=True)

    q = torch.tensor([0.0, 0.3, 0.5, 0.85, 1.0], dtype=torch.float64)
    for name, function in (("quantile", torch.quantile), ("nanquantile", torch.nanquantile)):
        values = x if name == "quantile" else holes
        run = lambda x, q, dim, keepdim, interpolation: function(x, q, dim=dim, keepdim=keepdim, interpolation=interpolation)
        for interpolation in ("linear", "lower", "higher", "midpoint", "nearest"):
            family.case(name, interpolation, run, [values, q], constant=(1,), dim=1, keepdim=False, interpolation=interpolation)
        family.case(name, "kept", run, [cube, q], constant=(1,), dim=1, keepdim=True, interpolation="linear")
        family.case(name, "one", run, [cube, torch.tensor(0.4, dtype=torch.float64)], constant=(1,), dim=0, keepdim=False, interpolation="linear")
        family.case(name, "holes", run, [holes, q], constant=(1,), forward_only=True, dim=0, keepdim=False, interpolation="linear")
        whole = lambda x, q, keepdim: function(x, q, keepdim=keepdim)
        for keepdim in (False, True):
            family.case(name, f"all_{int(keepdim)}", whole, [cube, q], constant=(1,), keepdim=keepdim)

    for p, dim in ((1.0, 0), (2.0, 1), (3.0, -1)):
        family.case("renorm", f"p_{p:g}", lambda x, p, dim, maxnorm: torch.renorm(x, p, dim, maxnorm), [family.normal(3, 4, 2)], p=p, dim=dim, maxnorm=2.5)
    for n in (0, 1, 3):
        family.case("diff", f"n_{n}", lambda x, n, dim: torch.diff(x, n, dim), [x], n=n, dim=1)
    family.case("diff", "too_often", lambda x, n, dim: torch.diff(x, n, dim), [family.normal(3, 2)], n=4, dim=0)
    family.case("diff", "around", lambda x, a, b, n, dim: torch.diff(x, n, dim, a, b), [x, family.normal(1, 6), family.normal(2, 6)], n=2, dim=0)
    points = family.normal(6)
    for name, function in (("trapezoid", torch.trapezoid), ("cumulative_trapezoid", torch.cumulative_trapezoid)):
        family.case(name, "distance", lambda y, dx, dim: function(y, dx=dx, dim=dim), [x], dx=0.5, dim=1)
        family.case(name, "first", lambda y, dx, dim: function(y, dx=dx, dim=dim), [cube], dx=1.0, dim=0)
        family.case(name, "points", lambda y, p, dim: function(y, p, dim=dim), [x, points], dim=1)
        family.case(name, "all_points", lambda y, p, dim: function(y, p, dim=dim), [x, family.normal(4, 6)], dim=0)
    for correction in (0, 1):
        family.case("cov", f"correction_{correction}", lambda x, correction: torch.cov(x, correction=correction), [x], correction=correction)
    family.case("cov", "vector", lambda x, correction: torch.cov(x, correction=correction), [points], correction=1)
    family.case("corrcoef", "matrix", torch.corrcoef, [x])
    family.case("corrcoef", "vector", torch.corrcoef, [points], forward_only=True)
    family.case("histc", "bounds", lambda x, bins, min, max: torch.histc(x, bins, min, max), [x], forward_only=True, bins=4, min=-1.5, max=1.0)
    family.case("histc", "special", lambda x, bins, min, max: torch.histc(x, bins, min, max), [numbers], forward_only=True, bins=3, min=0.0, max=2.0)
