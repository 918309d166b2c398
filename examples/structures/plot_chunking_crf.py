"""
Chunking: which words belong together?
======================================

:class:`~sklearn_bundle.SDCACRF` labels the words of a sentence together, with a conditional random
field. Attributes are lists of strings, as for CRFsuite, and the template is that of CRFsuite's own
chunking example. The way goes from the columns of a file to the F1 of phrases, and to what the
model goes by.

The sentences are made up here. If the environment variable ``SKLEARN_BUNDLE_DATA`` names a folder
with the files conll2000_train.txt and conll2000_test.txt of the CoNLL-2000 shared task, which may
be compressed, they are the first 500 of the one and the first 300 of the other.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from sklearn_bundle import SDCACRF
from sklearn_bundle.datasets import load_conll
from sklearn_bundle.metrics import (
    sequence_accuracy_score,
    span_f1_scorer,
    span_precision_recall_fscore_support,
    token_accuracy_score,
)
from sklearn_bundle.plotting import ConvergenceDisplay

# %%
# A sentence is a list of words with their part-of-speech tags; the label of a word begins a phrase
# (B-NP, B-VP, B-PP), is inside one (I-NP, I-VP) or outside (O). What makes it hard: many words are
# nouns and verbs, the tagger errs on a quarter of those, and two noun phrases can be neighbours
# ("offered [the bank] [shares]") or be one ("[the bank shares]").

LEXICON = {
    "DT": "the a this every some no",
    "JJ": "new big early foreign weak higher heavy",
    "NN": "bank market dollar year company price share deficit trader loss",
    "PRP": "he she it they",
    "MD": "will may could should",
    "VB": "take expect say see buy sell become give",
    "RB": "not widely also sharply",
    "IN": "in of for from at",
    "NN or VB": "rise fall plan trade report offer cut sale deal bid value order",
}


def phrase(kind, rng):
    """Words and tags of a noun, verb or prepositional phrase."""
    if kind == "PP":
        tags = ["IN"]
    elif kind == "VP":
        tags = [tag for tag, share in (("MD", 0.3), ("RB", 0.2)) if rng.random() < share] + ["VB"]
    elif rng.random() < 0.2:
        tags = ["PRP"]
    else:
        tags = [tag for tag, share in (("DT", 0.6), ("JJ", 0.4)) if rng.random() < share]
        tags += ["NN"] * (1 + (rng.random() < 0.3))
    tokens = []
    for tag in tags:
        entry = tag
        if tag in ("NN", "VB") and rng.random() < 0.5:
            entry = "NN or VB"
            if rng.random() < 0.25:  # the tagger errs
                tag = "VB" if tag == "NN" else "NN"
        tokens.append((str(rng.choice(LEXICON[entry].split())), tag))
    return tokens


def sentence(rng):
    """Tokens and labels of one sentence."""
    kinds = ["NP", "VP"] + ["NP"] * rng.choice(3, p=[0.2, 0.5, 0.3])
    for _ in range(rng.choice(3, p=[0.4, 0.4, 0.2])):
        kinds += ["PP", "NP"]
    tokens, labels = [], []
    for kind in kinds:
        words = phrase(kind, rng)
        tokens += words
        labels += [f"B-{kind}"] + [f"I-{kind}"] * (len(words) - 1)
    return [*tokens, (".", ".")], [*labels, "O"]


# %%
# Raw columns: a token per line, word, tag and label, and an empty line between sentences.
# :func:`~sklearn_bundle.datasets.load_conll` reads such lines from a file, or from a list.


def lines(n_sentences, rng):
    """The lines of a file in columns."""
    for _ in range(n_sentences):
        tokens, labels = sentence(rng)
        for (word, tag), label in zip(tokens, labels, strict=True):
            yield f"{word} {tag} {label}"
        yield ""


folder = os.environ.get("SKLEARN_BUNDLE_DATA")
files = [sorted(Path(folder or "").glob(f"conll2000_{part}.txt*")) for part in ("train", "test")]
if folder and all(files):
    train, y_train = (part[:500] for part in load_conll(files[0][0]))
    test, y_test = (part[:300] for part in load_conll(files[1][0]))
else:
    rng = np.random.default_rng(0)
    train, y_train = load_conll(lines(300, rng))
    test, y_test = load_conll(lines(300, rng))
print(f"{len(train)} sentences to train, {len(test)} to test; the first of these:")

for (word, tag), label in zip(test[0], y_test[0], strict=True):
    print(f"{word:<15}{tag:<5}{label}")

# %%
# The template: words and tags at these distances from a word, alone and joined.

WORDS = [(-2,), (-1,), (0,), (1,), (2,), (-1, 0), (0, 1)]
TAGS = [(-2,), (-1,), (0,), (1,), (2,), (-2, -1), (-1, 0), (0, 1), (1, 2)]
TAGS += [(-2, -1, 0), (-1, 0, 1), (0, 1, 2)]


def attributes(sentence):
    """A list of strings a word, such as "w[-1]|w[0]=the|bank"."""
    columns = [("w", WORDS, 0), ("pos", TAGS, 1)]
    rows = []
    for i in range(len(sentence)):
        row = []
        for name, patterns, column in columns:
            for pattern in patterns:
                if all(0 <= i + distance < len(sentence) for distance in pattern):
                    left = "|".join(f"{name}[{distance}]" for distance in pattern)
                    right = "|".join(sentence[i + distance][column] for distance in pattern)
                    row.append(f"{left}={right}")
        rows.append(row)
    rows[0].append("BOS")
    rows[-1].append("EOS")
    return rows


X_train, X_test = ([attributes(sentence) for sentence in part] for part in (train, test))
print(X_test[0][1])

# %%
# The certificate says how far the objective is from its minimum.

model = SDCACRF(tol=1e-3, random_state=0).fit(X_train, y_train)
print(f"{model.coef_.shape[0]} labels x {model.coef_.shape[1]} attributes, {model.n_iter_} epochs")
print(f"{model.lower_bound_:.4f} <= minimum <= {model.objective_:.4f}, {model.status_}")

# %%
# Scores: a predicted phrase is right if its type, start and end are, as conlleval counts.

y_pred = model.predict(X_test)
print(f"tokens right:    {token_accuracy_score(y_test, y_pred):.3f}")
print(f"sentences right: {sequence_accuracy_score(y_test, y_pred):.3f}\n")
print(f"{'':<9}{'precision':>10}{'recall':>8}{'F1':>8}{'phrases':>9}")
kinds = sorted({label[2:] for labels in y_test for label in labels if label != "O"})
by_kind = span_precision_recall_fscore_support(y_test, y_pred, labels=kinds, average=None)
for kind, precision, recall, f1, number in zip(kinds, *by_kind, strict=True):
    print(f"{kind:<9}{precision:>10.3f}{recall:>8.3f}{f1:>8.3f}{number:>9}")
precision, recall, f1, _ = span_precision_recall_fscore_support(y_test, y_pred)
print(f"{'all':<9}{precision:>10.3f}{recall:>8.3f}{f1:>8.3f}{by_kind[3].sum():>9}")

# %%
# What the model goes by: the heaviest attributes of a label, and the weight of a label after
# another (from the one at the left to the one above), for the labels that occur most often.

counts = dict(zip(*np.unique(np.concatenate(y_train), return_counts=True), strict=True))
frequent = sorted(counts, key=counts.get, reverse=True)[:6]
heaviest = model.heaviest_features(n=4)
for label in frequent:
    print(f"{label:<7}" + "   ".join(f"{name} {weight:+.2f}" for name, weight in heaviest[label]))

print(f"\n{'':<7}" + "".join(f"{label:>7}" for label in frequent))
rows = np.searchsorted(model.classes_, frequent)
for label, weights in zip(frequent, model.transitions_[np.ix_(rows, rows)], strict=True):
    print(f"{label:<7}" + "".join(f"{weight:>7.2f}" for weight in weights))

# %%
# Of the sentences with up to 15 tokens, that of which the model is least sure, and its three best
# readings with their probabilities.

short = [k for k, x in enumerate(X_test) if len(x) <= 15]
doubtful = short[np.argmin(model.predict_log_proba([X_test[k] for k in short]))]
words = [word for word, _ in test[doubtful]]
print(" ".join(f"{word:>6}" for word in ["", *words]))
for labels, log_probability in model.decode([X_test[doubtful]], n_best=3)[0]:
    probability = f"{np.exp(log_probability):.3f}"
    columns = zip(["", *words], [probability, *labels], strict=True)
    print(" ".join(f"{label:>{max(len(word), 6)}}" for word, label in columns))

# %%
# The weight of the regularisation, by the F1 of phrases in three folds. Without a value,
# ``reg_lambda`` is one over the number of sentences.

n = len(X_train)
search = GridSearchCV(
    SDCACRF(random_state=0),
    {"reg_lambda": [10 / n, 1 / n, 0.1 / n]},
    scoring=span_f1_scorer,
    cv=3,
).fit(X_train, y_train)
for settings, f1 in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    print(f"reg_lambda = {settings['reg_lambda'] * n:>4g} / n   F1 {f1:.3f}")
print(f"on the test sentences: {search.score(X_test, y_test):.3f}")

# %%
# Left, how the certificate closes: the lower bound rises with every epoch, which is as many steps
# as there are sentences. The objective is known after a full pass over the data only, and one is
# made when the bound seems to be close. Middle, the heaviest attributes of the most frequent label;
# those with negative weights speak against it. Right, the probability of each label at each word of
# the doubtful sentence: where no field of a column is dark, the model cannot tell.

figure, axes = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
ConvergenceDisplay.from_estimator(model, y="lower_bound", ax=axes[0])
objective = {"color": "black", "linewidth": 1, "label": "objective of the model returned"}
axes[0].axhline(model.objective_, **objective)
axes[0].set(xlabel="epochs", ylabel="nats a sentence")
axes[0].legend()

names, weights = zip(*model.heaviest_features(n=10)[frequent[0]], strict=True)
colours = ["#0072B2" if weight > 0 else "#D55E00" for weight in weights]
axes[1].barh(range(len(names)), weights, color=colours)
axes[1].set_yticks(range(len(names)), names)
axes[1].invert_yaxis()
axes[1].axvline(0, color="black", linewidth=0.8)
axes[1].set(xlabel=f"weight with {frequent[0]}")

marginals = model.predict_marginals([X_test[doubtful]])[0]
seen = np.flatnonzero(marginals.max(axis=0) > 0.02)
image = axes[2].imshow(marginals[:, seen].T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
axes[2].set_xticks(range(len(words)), words, rotation=60)
axes[2].set_yticks(range(len(seen)), model.classes_[seen])
true = [np.flatnonzero(model.classes_[seen] == label) for label in y_test[doubtful]]
found = [k for k, place in enumerate(true) if len(place)]
axes[2].plot(
    found,
    [true[k][0] for k in found],
    "X",
    color="#D55E00",
    markeredgecolor="white",
    markersize=9,
    linestyle="none",
    label="true label",
)
axes[2].legend(loc="lower right", bbox_to_anchor=(1, 1))
figure.colorbar(image, ax=axes[2], label="probability")
plt.show()
