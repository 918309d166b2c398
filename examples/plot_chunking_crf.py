"""
Chunking: which words belong together?
======================================

:class:`~sklearn_bundle.SDCACRF` labels the words of a sentence together, with a conditional random
field. Attributes are lists of strings, as for CRFsuite, and the template is that of CRFsuite's own
chunking example. The sentences are made up here; with the files of the CoNLL-2000 shared task,

    python examples/plot_chunking_crf.py train.txt test.txt

does the same on them (its grid search takes some minutes).
"""

import sys

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


if len(sys.argv) == 3:
    (train, y_train), (test, y_test) = (load_conll(path) for path in sys.argv[1:])
else:
    rng = np.random.default_rng(0)
    train, y_train = zip(*(sentence(rng) for _ in range(300)), strict=True)
    test, y_test = zip(*(sentence(rng) for _ in range(300)), strict=True)

for (word, tag), label in zip(test[0], y_test[0], strict=True):
    print(f"{word:<10}{tag:<5}{label}")

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
# another.

for label, heaviest in model.heaviest_features(n=4).items():
    print(f"{label:<7}" + "   ".join(f"{name} {weight:+.2f}" for name, weight in heaviest))

print(f"\n{'':<7}" + "".join(f"{label:>7}" for label in model.classes_))
for label, weights in zip(model.classes_, model.transitions_, strict=True):
    print(f"{label:<7}" + "".join(f"{weight:>7.2f}" for weight in weights))

# %%
# The sentence of which the model is least sure, and its three best readings.

doubtful = int(np.argmin(model.predict_log_proba(X_test)))
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
# Left, how the certificate closes; an epoch is as many steps as there are sentences. Right, the
# probability of each label at each word of the doubtful sentence.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
history = model.history_
gap = (history["objective"] - history["lower_bound"]) / history["objective"]
left.semilogy(history["iteration"], gap)
left.axhline(model.tol, color="black", linestyle="dashed", label="tol")
left.set(xlabel="epochs", ylabel="gap / objective")
left.legend()

marginals = model.predict_marginals([X_test[doubtful]])[0]
image = right.imshow(marginals.T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
right.set_xticks(range(len(words)), words, rotation=60)
right.set_yticks(range(len(model.classes_)), model.classes_)
true = np.searchsorted(model.classes_, y_test[doubtful])
right.plot(range(len(words)), true, "x", color="tab:red", label="true label")
right.legend()
figure.colorbar(image, label="probability")
plt.show()
