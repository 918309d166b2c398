"""The instances of ``fingerprints.py`` for conditional random fields and what goes with them."""

import numpy as np
from _fingerprints import Case, Found, computed, found
from _fingerprints_data import folder, task

from sklearn_bundle import SDCACRF, metrics
from sklearn_bundle.datasets import load_conll, load_svmlight

DUAL = ("exponentiated", "sdca")
SAMPLINGS = ("gap", "uniform", "importance", "gap-importance", "max")
WEIGHTS = np.tile([0.0, 1.0, 2.0, 0.5], 15)  # of sequences, some without weight


def crf(**params) -> SDCACRF:
    """One with a seed that ends soon where it does not converge."""
    return SDCACRF(**{"random_state": 0, "max_iter": 60} | params)


SCHEMES = {
    "IOB1": ["I-A", "B-A", "O", "I-B"],
    "IOE2": ["I-A", "E-A", "O", "E-B"],
    "BIOES": ["B-A", "I-A", "E-A", "O", "S-B"],
    "brackets": ["[-A", "]-A", ".", "[-B"],
}
ANOTHER_LAMBDA, ANOTHER_TOL = {"reg_lambda": 0.05}, {"tol": 1e-5}
ONWARDS = {"max_iter": 200}
THEN = (ONWARDS, ANOTHER_LAMBDA, ANOTHER_TOL)

SOLVERS = [
    Case("CRF", crf(), "chains"),
    *(Case(f"CRF, {solver}", crf(solver=solver), "chains") for solver in (*DUAL, "lbfgs")),
    Case("CRF, words", crf(), "words"),
    *(Case(f"CRF, words, {solver}", crf(solver=solver), "words") for solver in (*DUAL, "lbfgs")),
    *(
        Case(f"CRF, {solver}, {sampling}", crf(solver=solver, sampling=sampling), "words")
        for solver in DUAL
        for sampling in SAMPLINGS[1:]
    ),
    Case("CRF, all steps by gap", crf(nonuniformity=1.0, solver="sdca"), "words"),
    Case("CRF, line search", crf(solver="sdca", line_search_tol=1e-1), "words"),
    *(
        Case(f"CRF, {solver}, tight", crf(solver=solver, tol=1e-9, max_iter=200), "chains")
        for solver in (*DUAL, "lbfgs")
    ),
    Case("CRF, L-BFGS goes on", crf(reg_lambda=1e-5, tol=1e-6), "words"),
    Case("CRF, L-BFGS goes on, hard", crf(reg_lambda=1e-6, tol=1e-4, max_iter=40), "strings"),
    *(
        Case(f"CRF, ended by max_iter, {solver}", crf(solver=solver, max_iter=2), "words")
        for solver in (*DUAL, "lbfgs")
    ),
]

KINDS_OF_X = [
    Case("CRF, strings", crf(reg_lambda=0.01), "strings"),
    Case("CRF, sparse", crf(), "sparse chains"),
    Case("CRF, equal lengths", crf(solver="exponentiated"), "equal chains"),
    Case("CRF, 2-D", crf(reg_lambda=0.01), "three"),
    Case("CRF, 2-D, sdca", crf(solver="sdca"), "three", "float32"),
    Case("CRF, 2-D, exponentiated", crf(solver="exponentiated"), "text", "CSR"),
    Case(
        "CRF, 2-D, weights",
        crf(solver="exponentiated"),
        *("three", "CSC"),
        fit={"sample_weight": np.arange(180.0) % 3},
    ),
    *(
        Case(
            f"CRF, weights, {solver}",
            crf(solver=solver, sampling="gap-importance", fit_intercept=False),
            "words",
            fit={"sample_weight": WEIGHTS},
        )
        for solver in (*DUAL, "lbfgs")
    ),
    Case("CRF, no intercept", crf(fit_intercept=False, solver="sdca"), "chains"),
    Case("CRF, two threads", crf(n_jobs=2), "words"),
    Case("CRF, two threads, lbfgs", crf(n_jobs=2, solver="lbfgs"), "chains"),
]

WARM_STARTS = [
    Case("CRF, warm start", crf(warm_start=True, max_iter=4), "words", then=THEN),
    *(
        Case(
            f"CRF, warm start, {solver}",
            crf(warm_start=True, solver=solver, max_iter=4),
            "chains",
            then=(*THEN, {"sampling": "uniform", "tol": 1e-7}),
        )
        for solver in (*DUAL, "lbfgs")
    ),
]


def attributes() -> list[Found]:
    """Tokens and labels of other kinds: nested dicts, sets, arrays, tuples."""
    X, y = task("words")
    nested = [
        [{"at": {"word": t["word"], "size": t["size"]}, "of": {"a", t["word"]}} for t in row]
        for row in X
    ]
    arrays = [[np.array([t["word"], t["word"], "any"]) for t in row] for row in X]
    pairs = [[(tag[0], tag) for tag in row] for row in y]
    return [
        found(crf(max_iter=5).fit(nested, pairs), nested),
        found(crf(max_iter=5).fit(arrays, [[len(tag) for tag in row] for row in y]), arrays),
    ]


def scores() -> list[Found]:
    """The metrics of label sequences."""
    X, y = task("words")
    model = crf(max_iter=1).fit(X, y)
    predicted = model.predict(X)
    per_type = metrics.span_precision_recall_fscore_support(y, predicted, average=None)
    return [
        computed(
            tokens=metrics.token_accuracy_score(y, predicted),
            sequences=metrics.sequence_accuracy_score(y, predicted),
            spans=[metrics.spans(row) for row in y[:5]],
            schemes=[metrics.spans(labels, scheme) for scheme, labels in SCHEMES.items()],
            precision=metrics.span_precision_score(y, predicted),
            recall=metrics.span_recall_score(y, predicted, labels=["NP"]),
            weighted=metrics.span_f1_score(y, predicted, sample_weight=WEIGHTS, average="macro"),
            per_type=per_type,
            scorer=metrics.span_f1_scorer(model, X, y),
            score=model.score(X, y, sample_weight=WEIGHTS),
            heaviest=model.heaviest_features(3),
            best=model.decode(X[:3], n_best=3),
            given=model.predict_log_proba(X, y),
        )
    ]


def read() -> list[Found]:
    """The readers of files, and a fit to what they read."""
    X, y = task("words")
    text = "\n\n".join(
        "\n".join(f"{token['word']} {tag}" for token, tag in zip(*row, strict=True))
        for row in zip(X, y, strict=True)
    )
    conll, svmlight = (folder().with_suffix(suffix) for suffix in (".conll", ".txt"))
    conll.write_text(text + "\n")
    svmlight.write_text("1 1:0.5 3:2\n-1 2:1.25\n1 1:-3 2:0.125\n")
    sequences, labels = load_conll(conll)
    return [
        computed(svmlight=load_svmlight(svmlight), conll=[sequences[:3], labels[:3]]),
        found(crf(max_iter=3).fit(sequences, labels), sequences),
    ]


CASES = [
    *SOLVERS,
    *KINDS_OF_X,
    *WARM_STARTS,
    ("CRF, attributes and labels of other kinds", attributes),
    ("metrics of sequences", scores),
    ("readers", read),
]
