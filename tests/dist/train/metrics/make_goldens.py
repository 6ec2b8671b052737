#!/usr/bin/env python3
"""Writes goldens.txt: inputs of metrics, and the values that scikit-learn and torchmetrics compute from them.

The file is committed, so neither the build nor the tests need Python. Run this again only to change the cases:

    pip install torch scikit-learn torchmetrics
    python3 tests/dist/train/metrics/make_goldens.py

A line is: name, extents, ":", values. Recorded with scikit-learn 1.9.1, torchmetrics 1.9.0 and PyTorch 2.15.
"""

import pathlib
import warnings

import numpy as np
import sklearn.metrics as sk
import torch
import torchmetrics.functional as tf
import torchmetrics as tm

warnings.simplefilter("ignore")  # of empty metrics, and of classes that do not occur
OUTPUT = pathlib.Path(__file__).resolve().parent / "goldens.txt"
ROWS, CLASSES, OUTPUTS, TOKENS, VOCABULARY, IGNORED = 40, 6, 3, 5, 7, -100
rng = np.random.default_rng(20)
lines = []


def write(name, values):
    values = np.asarray(values)
    extents = " ".join(str(n) for n in values.shape)
    text = " ".join(f"{v:.17g}" for v in values.astype(np.float64).reshape(-1))
    lines.append(f"{name} {extents}: {text}".replace("  ", " "))


def rounded(x):
    return np.round(x, 3)


# Inputs. Class 5 occurs neither as a target nor as a prediction, class 4 only as a prediction.
logits = rounded(rng.normal(size=(ROWS, CLASSES)))
logits[:, 5] = -5
targets = rng.integers(0, 4, size=ROWS)
logits[np.arange(ROWS), targets] += 1
logits = rounded(logits)
ignored = np.where(rng.random(ROWS) < 0.2, IGNORED, targets)
weights = rounded(rng.uniform(0.1, 3, size=ROWS))
weights[rng.random(ROWS) < 0.2] = 0
probabilities = rounded(rng.random(ROWS))
labels = (rng.random(ROWS) < 0.3 + 0.4 * probabilities).astype(np.int64)
truth = rounded(rng.normal(size=(ROWS, OUTPUTS)))
truth[:, 1] = rounded(10 + 3 * truth[:, 1])
truth[:, 2] = 0.1  # constant
guesses = rounded(truth + rng.normal(scale=0.5, size=truth.shape))
token_logits = rounded(2 * rng.normal(size=(ROWS, TOKENS, VOCABULARY)))
tokens = rng.integers(0, VOCABULARY, size=(ROWS, TOKENS))
tokens[rng.random(tokens.shape) < 0.2] = IGNORED
for name in ("logits targets ignored weights probabilities labels truth guesses token_logits tokens").split():
    write(name, globals()[name])

# scikit-learn, with weights.
predicted = logits.argmax(axis=1)
write("accuracy", sk.accuracy_score(targets, predicted, sample_weight=weights))
write("accuracy_top3", sk.top_k_accuracy_score(targets, logits, k=3, labels=range(CLASSES), sample_weight=weights))
write("accuracy_binary", sk.accuracy_score(labels, probabilities > 0.5, sample_weight=weights))
for average in ("macro", "micro", "weighted", None):
    # None of all classes; means by default over the classes that occur.
    options = dict(labels=range(CLASSES)) if average is None else {}
    values = sk.precision_recall_fscore_support(
        targets, predicted, average=average, sample_weight=weights, zero_division=0, **options)
    for metric, value in zip(("precision", "recall", "f1"), values):
        write(f"{metric}_{'none' if average is None else average}", value)
values = sk.precision_recall_fscore_support(labels, probabilities > 0.5, average="binary", sample_weight=weights)
for metric, value in zip(("precision", "recall", "f1"), values):
    write(f"{metric}_binary", value)
for name, normalize in dict(none=None, targets="true", predictions="pred", all="all").items():
    write(f"confusion_{name}", sk.confusion_matrix(
        targets, predicted, labels=range(CLASSES), sample_weight=weights, normalize=normalize))
first = (truth[:, 0], guesses[:, 0])
write("mse", sk.mean_squared_error(*first, sample_weight=weights))
write("rmse", sk.root_mean_squared_error(*first, sample_weight=weights))
write("mae", sk.mean_absolute_error(*first, sample_weight=weights))
write("r2", sk.r2_score(*first, sample_weight=weights))
for name, output in dict(uniform="uniform_average", variance_weighted="variance_weighted", none="raw_values").items():
    write(f"r2_{name}", sk.r2_score(truth, guesses, sample_weight=weights, multioutput=output))
write("mean", np.average(truth[:, 0], weights=weights))

# torchmetrics, with targets that do not count.
kind = dict(num_classes=CLASSES, ignore_index=IGNORED)
scores, ids = torch.tensor(logits), torch.tensor(ignored)
write("ignored_accuracy", tf.classification.multiclass_accuracy(scores, ids, average="micro", **kind))
write("ignored_accuracy_top2", tf.classification.multiclass_accuracy(scores, ids, average="micro", top_k=2, **kind))
for average in ("macro", "micro", "weighted", "none"):
    write(f"ignored_precision_{average}", tf.classification.multiclass_precision(scores, ids, average=average, **kind))
    write(f"ignored_recall_{average}", tf.classification.multiclass_recall(scores, ids, average=average, **kind))
    write(f"ignored_f1_{average}", tf.classification.multiclass_f1_score(scores, ids, average=average, **kind))
for name, normalize in dict(none=None, targets="true", predictions="pred", all="all").items():
    write(f"ignored_confusion_{name}", tf.classification.multiclass_confusion_matrix(
        scores, ids, normalize=normalize, **kind))
write("ignored_perplexity", tf.perplexity(torch.tensor(token_logits), torch.tensor(tokens), ignore_index=IGNORED))
write("unweighted_r2", tf.r2_score(torch.tensor(guesses[:, :2]), torch.tensor(truth[:, :2])))

# torchmetrics without an update.
for name, metric in dict(
    accuracy=tm.classification.MulticlassAccuracy(CLASSES, average="micro"),
    precision=tm.classification.MulticlassPrecision(CLASSES),
    recall=tm.classification.MulticlassRecall(CLASSES),
    f1=tm.classification.MulticlassF1Score(CLASSES),
    confusion=tm.classification.MulticlassConfusionMatrix(CLASSES, normalize="true"),
    perplexity=tm.text.Perplexity(),
    mse=tm.MeanSquaredError(),
    mae=tm.MeanAbsoluteError(),
    mean=tm.MeanMetric(),
).items():
    write(f"empty_{name}", metric.compute())

OUTPUT.write_text("\n".join(lines) + "\n")
