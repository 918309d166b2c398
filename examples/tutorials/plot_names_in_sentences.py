"""
Names in real sentences, and what the model gets wrong
======================================================

Find names in text as people write it, with typing errors and without capitals. You see what a
conditional random field learns from 300 sentences, which errors it makes, and when it is in doubt.
CRFsuite is beside it, if it is installed.

The sentences are questions, answers and reviews of the English Web Treebank, part of Universal
Dependencies, under CC BY-SA 4.0. A name is a run of words that are tagged as proper nouns.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold
from texts import sentences_with_names  # a file beside this one

from sklearn_bundle import SDCACRF
from sklearn_bundle.metrics import span_precision_recall_fscore_support, spans

try:
    import pycrfsuite
except ImportError:
    pycrfsuite = None

sentences, tags = sentences_with_names()
labels = [[tag if tag == "O" else f"{tag}-name" for tag in row] for row in tags]
n_names = sum(len(spans(row)) for row in labels)
print(f"{len(sentences)} sentences, {sum(map(len, sentences))} words, {n_names} names")
print(" ".join(f"{word}/{tag}" for word, tag in zip(sentences[2], tags[2], strict=True)))

# %%
# Words as attributes
# -------------------
#
# A word is described by strings: itself, its ending, its shape, and its neighbors. New words have
# known shapes.


def shape(word):
    kinds = [
        "X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word
    ]
    return "".join(c for k, c in enumerate(kinds) if k == 0 or c != kinds[k - 1])


def attributes(words):
    rows = []
    for k, word in enumerate(words):
        row = [f"word={word.lower()}", f"end={word[-3:].lower()}", f"shape={shape(word)}"]
        row.append(f"begin={word[:3].lower()}")
        for step in (-2, -1, 1, 2):
            if 0 <= k + step < len(words):
                other = words[k + step]
                row += [f"word[{step:+}]={other.lower()}", f"shape[{step:+}]={shape(other)}"]
            else:
                row.append(f"none[{step:+}]")
        rows.append(row)
    return rows


X = [attributes(words) for words in sentences]
print(X[2][0])

# %%
# Every sentence is predicted by a model that has not seen it, in five folds. CRFsuite's ``c2`` is
# set so that both minimize the same objective.


def fit_ours(X, y):
    return SDCACRF(reg_lambda=REG_LAMBDA, fit_intercept=False, tol=1e-4, random_state=0).fit(X, y)


def fit_peer(X, y):
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for rows, row in zip(X, y, strict=True):
        trainer.append(rows, row)
    possible = {"feature.possible_states": True, "feature.possible_transitions": True}
    trainer.set_params({"c2": REG_LAMBDA * len(X) / 2, **possible})
    tagger = pycrfsuite.Tagger()
    with TemporaryDirectory() as folder:  # CRFsuite writes its model to a file
        trainer.train(f"{folder}/model")
        tagger.open_inmemory(Path(folder, "model").read_bytes())
    return tagger


REG_LAMBDA = 3e-3
found, found_by_peer = [None] * len(X), [None] * len(X)
probability, certain = np.empty(len(X)), [None] * len(X)
seconds = np.zeros(2)
fit_ours(X[:20], labels[:20])  # compiles
for train, test in KFold(5, shuffle=True, random_state=0).split(X):
    given = [X[k] for k in train], [labels[k] for k in train]
    new = [X[k] for k in test]
    start = process_time()
    model = fit_ours(*given)
    seconds[0] += process_time() - start
    predicted = model.predict(new)
    doubts = np.exp(model.predict_log_proba(new))
    for k, row, sure, p in zip(test, predicted, model.certain(new), doubts, strict=True):
        found[k], certain[k], probability[k] = list(row), sure, p
    if pycrfsuite is not None:
        start = process_time()
        tagger = fit_peer(*given)
        seconds[1] += process_time() - start
        for k in test:
            found_by_peer[k] = tagger.tag(X[k])
print(f"gap of the last fit {model.relative_gap_:.1e}, {seconds[0]:.1f} s for the five fits")
print(f"labels that are surely those of the exact optimum: {np.mean(np.concatenate(certain)):.1%}")

# %%
# Precision, recall and F1 of whole names. The interval is for the F1 of other sentences of this
# kind: the middle 95 % when 300 sentences are drawn again and again from these. Both models
# minimize the same objective, so the interval of their difference should contain zero.


def scores(predicted, drawn=slice(None)):
    pick = np.arange(len(X))[drawn]
    truth, guess = [labels[k] for k in pick], [predicted[k] for k in pick]
    return np.array(span_precision_recall_fscore_support(truth, guess)[:3])


draws = np.random.default_rng(0).integers(len(X), size=(300, len(X)))
of_ours = scores(found)
drawn_ours = np.array([scores(found, draw)[2] for draw in draws])
low, high = np.quantile(drawn_ours, (0.025, 0.975))
print("SDCACRF   precision {:.3f}, recall {:.3f}, F1 {:.3f}".format(*of_ours), end="")
print(f", from {low:.3f} to {high:.3f}")
if pycrfsuite is None:
    print("CRFsuite is not installed here (pip install python-crfsuite), so it has no row.")
else:
    print("CRFsuite  precision {:.3f}, recall {:.3f}, F1 {:.3f}".format(*scores(found_by_peer)))
    drawn = drawn_ours - [scores(found_by_peer, draw)[2] for draw in draws]
    print(
        "F1 of SDCACRF less that of CRFsuite: from {:+.3f} to {:+.3f}".format(
            *np.quantile(drawn, (0.025, 0.975))
        )
    )
    same = np.mean(np.concatenate(found) == np.concatenate(found_by_peer))
    print(f"the same label for {same:.1%} of the words; CPU time of CRFsuite's five fits", end="")
    print(f": {seconds[1] / seconds[0]:.1f} times ours")

# %%
# The errors
# ----------
#
# A name is missed, invented, or found with another beginning or end. The first sentences of each
# kind, with brackets around the true names, and what the model found:


def errors_of(row, guess):
    """Names that are missed, with another extent, and invented."""
    true, seen = spans(row), spans(guess)
    covers = lambda a, b: a[1] < b[2] and b[1] < a[2]  # noqa: E731, (kind, start, stop)
    wrong = [span for span in true if span not in seen]
    extent = [span for span in wrong if any(covers(span, other) for other in seen)]
    invented = [s for s in seen if s not in true and not any(covers(s, t) for t in true)]
    return {
        "missed": [span for span in wrong if span not in extent],
        "other extent": extent,
        "invented": invented,
    }


def bracketed(words, row):
    text = list(words)
    for _, start, stop in spans(row):
        text[start] = "[" + text[start]
        text[stop - 1] += "]"
    return " ".join(text)


errors = [errors_of(row, guess) for row, guess in zip(labels, found, strict=True)]
for kind in errors[0]:
    with_kind = [k for k in range(len(X)) if errors[k][kind] and len(sentences[k]) < 20]
    print(f"{kind}: {sum(len(of[kind]) for of in errors)}")
    for k in with_kind[:3]:
        names = [" ".join(word for word in sentences[k][a:b]) for _, a, b in spans(found[k])]
        print(
            f"    {bracketed(sentences[k], labels[k])}\n        found: {', '.join(names) or 'none'}"
        )
lower = [sentences[k][a].islower() for k, of in enumerate(errors) for _, a, _ in of["missed"]]
print(f"{np.mean(lower):.0%} of the missed names begin with a small letter")

# %%
# What the model has learned
# --------------------------
#
# The heaviest attributes of a fit to all sentences: shapes and neighbors, since few names return.

model = fit_ours(X, labels)
for label, weights in zip(model.classes_, model.coef_, strict=True):
    heaviest = np.argsort(-np.abs(weights))[:5]
    names = model.attribute_names_[heaviest]
    pairs = zip(names, weights[heaviest], strict=True)
    print(f"{label:<8}" + "   ".join(f"{name} {weight:+.2f}" for name, weight in pairs))

# %%
# When it is in doubt
# -------------------
#
# The model gives each labeling of a sentence a probability. This is the sentence of which it was
# the least sure, with the best labeling by a fit without it:

doubtful = int(np.argmin(probability))
others = [k for k in range(len(X)) if k != doubtful]
without = fit_ours([X[k] for k in others], [labels[k] for k in others])
print(f"true:   {bracketed(sentences[doubtful], labels[doubtful])}")
best = without.predict([X[doubtful]])
likely = float(np.exp(without.predict_log_proba([X[doubtful]], best)[0]))
print(f"{likely:.3f}:  {bracketed(sentences[doubtful], best[0])}")

# %%
# So read the least probable ones yourself. Left: the errors by kind. Right: how many sentences have
# an error, by quarters of the probability.

wrong = np.array([row != guess for row, guess in zip(labels, found, strict=True)])
quarters = np.array_split(np.argsort(probability), 4)
shares = [wrong[quarter].mean() for quarter in quarters]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.3), layout="constrained")
kinds = list(errors[0])
predictions = {"SDCACRF": found}
if pycrfsuite is not None:
    predictions["CRFsuite"] = found_by_peer
for k, (name, guesses) in enumerate(predictions.items()):
    each = [errors_of(row, guess) for row, guess in zip(labels, guesses, strict=True)]
    counts = [sum(len(of[kind]) for of in each) for kind in kinds]
    places = np.arange(len(kinds)) + 0.4 * k
    left.bar_label(left.bar(places, counts, 0.38, label=name, color=("#0072B2", "#E69F00")[k]))
left.set_xticks(np.arange(len(kinds)) + 0.2 * (len(predictions) - 1), kinds)
left.set(ylabel=f"names, of {n_names}")
left.legend()
edges = [probability[quarter].max() for quarter in quarters]
bars = right.bar([f"up to {edge:.3f}" for edge in edges], shares, color="#0072B2")
right.bar_label(bars, [f"{share:.0%}" for share in shares])
right.set(xlabel="probability of the labeling, a quarter each", ylabel="sentences with an error")
caught = wrong[np.concatenate(quarters[:2])].sum() / wrong.sum()
figure.suptitle(
    f"F1 of names {of_ours[2]:.2f} from 240 sentences. Read the half of which it is least sure: "
    f"{caught:.0%} of those with an error"
)
plt.show()
