"""Losses of real values, classes, labels, pairs, triples and sequences."""

import torch
import torch.nn.functional as F

REDUCTIONS = ("mean", "sum", "none")


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def elementwise(family, reduction):
    x, t = (3, 4), (3, 4)
    away = lambda: [family.distinct(*x) / 2, family.distinct(*t) / 4 + 0.03125]  # no differences at a kink
    settings = dict(reduction=reduction)
    for name, function, options in [
        ("l1_loss", F.l1_loss, {}),
        ("huber_loss", F.huber_loss, dict(delta=0.7)),
        ("smooth_l1_loss", F.smooth_l1_loss, dict(beta=0.7)),
        ("mse_loss", F.mse_loss, {}),
    ]:
        family.case(name, reduction, function, away(), **settings, **options)
        family.case(name, f"empty_{reduction}", function, [family.normal(0, 3), family.normal(0, 3)], **settings, **options)
        if name == "smooth_l1_loss":
            continue
        weighted = lambda a, b, w, function=function, **o: function(a, b, weight=w, **o)
        family.case(name, f"weights_{reduction}", weighted, away() + [family.uniform(0.5, 2, *x)], **settings, **options)
    for log_input in (True, False):
        for full in (True, False):
            rates = family.normal(*x) if log_input else family.uniform(0.5, 3, *x)
            counts = family.integers(0, 6, *x).double() + 0.25
            name = f"{'log_' if log_input else ''}{'full_' if full else ''}{reduction}"
            options = dict(log_input=log_input, full=full, eps=1e-8)
            family.case("poisson_nll_loss", name, F.poisson_nll_loss, [rates, counts], **settings, **options)
    for case, shape in [("each", x), ("rows", (3,)), ("kept", (3, 1)), ("columns", (1, 4))]:
        inputs = [family.normal(*x), family.normal(*x), family.uniform(0.25, 2, *shape)]
        options = dict(full=case == "each", eps=1e-6)
        family.case("gaussian_nll_loss", f"{case}_{reduction}", F.gaussian_nll_loss, inputs, **settings, **options)


def classes(family, reduction):
    settings = dict(reduction=reduction)
    weights = vector(0.5, 1.0, 2.0, 0.25, 1.5)
    ids, ignored = torch.tensor([0, 4, 2, 1]), torch.tensor([0, -100, 2, 1])
    nll = lambda x, t, w=None, *, class_dim, **o: F.nll_loss(x, t, w, **o)
    for case, shape, targets, weight in [
        ("plain", (4, 5), ids, []),
        ("weights", (4, 5), ids, [weights]),
        ("ignore", (4, 5), ignored, [weights]),
        ("one", (5,), torch.tensor(3), []),
        ("images", (2, 5, 2, 3), family.integers(0, 5, 2, 2, 3), [weights]),
    ]:
        family.case("nll_loss", f"{case}_{reduction}", nll, [family.normal(*shape), targets] + weight, **settings,
                    constant=(2,), ignore_index=-100, class_dim=0 if case == "one" else 1)
    soft = lambda x, t, w=None, **o: F.cross_entropy(x, t, w, **o)
    for case, smoothing, weight in [("plain", 0.0, []), ("weights", 0.0, [weights]), ("all", 0.125, [weights])]:
        inputs = [family.normal(4, 5), family.uniform(0, 1, 4, 5)] + weight
        family.case("cross_entropy_soft", f"{case}_{reduction}", soft, inputs, constant=(2,), label_smoothing=smoothing,
                    **settings)
        family.case("cross_entropy_soft", f"constant_{case}_{reduction}", soft, inputs, constant=(1, 2),
                    label_smoothing=smoothing, **settings)
    bce = lambda x, t, w=None, **o: F.binary_cross_entropy(x, t, w, **o)
    probabilities = lambda *shape: family.uniform(0.1, 0.9, *shape)
    family.case("binary_cross_entropy", reduction, bce, [probabilities(3, 4), probabilities(3, 4)], **settings)
    family.case("binary_cross_entropy", f"weights_{reduction}", bce,
                [probabilities(3, 4), probabilities(3, 4), family.uniform(0.5, 2, 4)], constant=(2,), **settings)
    logits = lambda x, t, w, p, **o: F.binary_cross_entropy_with_logits(x, t, w, pos_weight=p, **o)
    family.case("binary_cross_entropy_with_logits", reduction, logits,
                [family.normal(3, 4) * 4, probabilities(3, 4), family.uniform(0.5, 2, 3, 4), family.uniform(0.5, 2, 4)],
                constant=(2, 3), **settings)
    for log_target in (False, True):
        t = family.normal(3, 4) if log_target else probabilities(3, 4)
        family.case("kl_div", f"{'log_' if log_target else ''}{reduction}", F.kl_div, [family.normal(3, 4), t],
                    log_target=log_target, **settings)
    signs = family.integers(0, 2, 3, 4).double() * 2 - 1
    family.case("soft_margin_loss", reduction, F.soft_margin_loss, [family.normal(3, 4), signs], constant=(1,), **settings)
    margin = lambda x, t, w=None, **o: F.multi_margin_loss(x, t, weight=w, **o)
    for case, p, shape, targets, weight in [
        ("p1", 1, (4, 5), ids, []), ("p2", 2, (4, 5), ids, [weights]), ("one", 1, (5,), torch.tensor(2), []),
    ]:
        family.case("multi_margin_loss", f"{case}_{reduction}", margin, [family.distinct(*shape) / 2, targets] + weight,
                    constant=(2,), p=p, margin=0.8, **settings)
    labels = torch.tensor([[3, 0, -1, 1, 2], [4, 1, 2, 0, 3], [-1, 2, 0, 1, 1]])
    family.case("multilabel_margin_loss", reduction, F.multilabel_margin_loss, [family.distinct(3, 5) / 2, labels],
                **settings)
    family.case("multilabel_margin_loss", f"one_{reduction}", F.multilabel_margin_loss,
                [family.distinct(5) / 2, labels[0]], **settings)
    multilabel = lambda x, t, w=None, **o: F.multilabel_soft_margin_loss(x, t, w, **o)
    family.case("multilabel_soft_margin_loss", reduction, multilabel,
                [family.normal(3, 5), probabilities(3, 5), weights], constant=(2,), **settings)


def pairs(family, reduction):
    settings = dict(reduction=reduction)
    signs = vector(1, -1, -1, 1)
    family.case("cosine_embedding_loss", reduction, F.cosine_embedding_loss,
                [family.normal(4, 3), family.normal(4, 3), signs], constant=(2,), margin=-0.3, **settings)
    family.case("cosine_embedding_loss", f"one_{reduction}", F.cosine_embedding_loss,
                [family.normal(3), family.normal(3), torch.tensor(1.0).double()], constant=(2,), margin=0.1, **settings)
    family.case("margin_ranking_loss", reduction, F.margin_ranking_loss,
                [family.distinct(4), family.distinct(4) / 2 + 0.03125, signs], constant=(2,), margin=0.4, **settings)
    family.case("hinge_embedding_loss", reduction, F.hinge_embedding_loss,
                [family.distinct(4) * 3, signs], constant=(1,), margin=0.8, **settings)
    for case, p, swap in [("plain", 2.0, False), ("swap", 2.0, True), ("p3", 3.0, False)]:
        triple = [family.normal(4, 3) for _ in range(3)]
        family.case("triplet_margin_loss", f"{case}_{reduction}", F.triplet_margin_loss, triple, p=p, swap=swap,
                    margin=1.5, eps=1e-6, **settings)
        if p == 2.0:
            squared = lambda a, b: (a - b).square().sum(-1)
            family.case("triplet_margin_with_distance_loss", f"{case}_{reduction}",
                        lambda a, b, c, **o: F.triplet_margin_with_distance_loss(a, b, c, distance_function=squared, **o),
                        triple, swap=swap, margin=1.5, **settings)


def sequences(family, reduction):
    """Through log_softmax, behind which PyTorch's gradient is that of the function."""

    def ctc(logits, targets, input_lengths, target_lengths, **options):
        return F.ctc_loss(F.log_softmax(logits, -1), targets, input_lengths, target_lengths, **options)

    repeats = torch.tensor([[1, 1, 2], [3, 2, 2], [2, 0, 0]])
    for case, shape, targets, frames, lengths, blank in [
        ("plain", (6, 2, 4), torch.tensor([[1, 2], [3, 1]]), [6, 6], [2, 2], 0),
        ("ragged", (7, 3, 4), repeats, [7, 5, 3], [3, 3, 1], 0),
        ("joined", (6, 3, 4), torch.tensor([1, 1, 3, 2, 2, 1]), [6, 5, 6], [2, 1, 3], 0),
        ("no_labels", (4, 3, 3), torch.tensor([[1, 2], [1, 1], [2, 1]]), [4, 3, 4], [0, 1, 2], 0),
        ("last_blank", (5, 2, 3), torch.tensor([[0, 1], [1, 1]]), [5, 5], [2, 2], 2),
        ("one", (5, 3), torch.tensor([1, 2]), 5, 2, 0),
    ]:
        inputs = [family.normal(*shape), targets, torch.tensor(frames), torch.tensor(lengths)]
        family.case("ctc_loss", f"{case}_{reduction}", ctc, inputs, blank=blank, zero_infinity=False,
                    reduction=reduction)
    impossible = [family.normal(3, 3, 4), repeats, torch.tensor([3, 3, 3]), torch.tensor([3, 3, 1])]
    family.case("ctc_loss", f"impossible_{reduction}", ctc, impossible, blank=0, zero_infinity=True, reduction=reduction)


def record(family):
    for reduction in REDUCTIONS:
        elementwise(family, reduction)
        classes(family, reduction)
        pairs(family, reduction)
        sequences(family, reduction)
    for case, p, keepdim in [("euclid", 2.0, False), ("p3", 3.0, True), ("p1", 1.0, False)]:
        family.case("pairwise_distance", case, F.pairwise_distance, [family.normal(4, 3), family.normal(4, 3)], p=p,
                    eps=1e-6, keepdim=keepdim)
    for log_target in (False, True):
        t = family.uniform(0.1, 0.9, 3, 4)
        family.case("kl_div", f"{'log_' if log_target else ''}batchmean", F.kl_div, [family.normal(3, 4), t],
                    log_target=log_target, reduction="batchmean")
