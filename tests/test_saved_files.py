"""Files of models: whole, refused by name, and read as they were written by earlier versions."""

import io
import json
import math
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import sklearn_bundle
from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMRanker,
    BMRMRegressor,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
    models,
)
from sklearn_bundle.losses import NDCG, FBeta, Hinge, Ordinal
from sklearn_bundle.models import Chain, Grid, Matching, Multilabel, Segments
from sklearn_bundle.regularizers import Lp, Quadratic
from sklearn_bundle.saving import _ESTIMATORS
from tests.saved_models import FOLDER, MODELS, THREE, TWO, F, X, predictions

LEFT_OUT = {"_warm", "_skl_callbacks", "_metadata_request"}
EDGES = [("letters", "a"), ("letters", "b"), ("root", "letters"), ("root", "c")]
PICTURES = [np.sin(np.arange(12.0) * k).reshape(2, 3, 2) for k in (1, 2, 3)]
CELLS = [(picture[..., 0] > 0.0).astype(int) for picture in PICTURES]
PAIRS = [np.sin(np.arange(8.0) * k).reshape(2, 2, 2) for k in (1, 2, 3)]
SPANS = [np.eye(2)[[0, 0, 1]], np.eye(2)[[0, 0, 0, 0, 1]]]
OF_SPANS = [[(0, 0, 2), (1, 2, 3)], [(0, 0, 2), (0, 2, 4), (1, 4, 5)]]
FURTHER = [
    (StructuredSVM(Chain(cost=[[0.0, 1.0], [2.0, 0.0]]), reg_lambda=0.1), *MODELS["SDCACRF"][1:]),
    (StructuredSVM(models.Ontology(EDGES), reg_lambda=0.1), X, THREE),
    (StructuredSVM(Multilabel("full"), reg_lambda=0.1), X, np.c_[TWO, 1 - TWO]),
    (StructuredSVM(Grid(contrast=[1]), reg_lambda=0.1), PICTURES, CELLS),
    (StructuredSVM(Matching(), reg_lambda=0.1), PAIRS, [[0, 1], [1, 0], [0, 1]]),
    (StructuredSVM(Segments(boundaries=False), reg_lambda=0.1), SPANS, OF_SPANS),
    (BMRMClassifier("fbeta", beta=0.5, reg_lambda=0.1), X, TWO),
    (BMRMClassifier(FBeta(0.5), regularizer=Lp(1.5), reg_lambda=0.1), X, TWO),
    (BMRMClassifier("ontology", edges=EDGES, reg_lambda=0.1), sp.csr_array(X), THREE),
    (BMRMClassifier(class_weight={0: 1.0, 1: np.float32(2.0)}, reg_lambda=0.1), X, TWO),
    (BMRMClassifier(regularizer=Quadratic(sp.eye_array(3, format="csc"))), X, TWO),
    (BMRMClassifier(C=3), X, np.array([False, True])[TWO]),
    (BMRMRanker(Ordinal(cost="squared"), reg_lambda=0.1), X, TWO),
    (BMRMRegressor(reg_lambda=0.1), X.astype(np.float32), np.c_[F, -F]),
    (SwapSVC(), sp.csr_matrix(X), THREE),
    (SwapSVR(loss="epsilon_insensitive"), X.astype(np.float32), F),
    (SwapNoveltyDetector(kernel="linear"), X, None),
    (SwapSVCCV(Cs=[1.0, 10.0], gammas=[0.1, 1.0], cv=2), X, THREE),
    (SDCACRF(reg_lambda=0.1, l1_ratio=0.5, random_state=0), X, THREE),
]


def equal(a, b):
    """To the last bit, with types and layout."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ma.MaskedArray):
        return equal(a.data, b.data) and equal(np.asarray(a.mask), np.asarray(b.mask))
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape
        same = same and (a.flags.fnc == b.flags.fnc or not a.flags.forc)
        if a.dtype.hasobject:
            return same and all(map(equal, a.ravel(), b.ravel()))
        return same and a.tobytes() == b.tobytes()
    if sp.issparse(a):
        parts = ("data", "indices", "indptr")
        return a.shape == b.shape and all(equal(getattr(a, p), getattr(b, p)) for p in parts)
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if hasattr(a, "__getstate__") and type(a).__module__.startswith("sklearn_bundle."):
        return equal(*(dict(sorted((one.__getstate__() or {}).items())) for one in (a, b)))
    return a == b or (a != a and b != b)


def through_a_file(model):
    file = io.BytesIO()
    sklearn_bundle.save(model, file)
    return sklearn_bundle.load(file)


def is_kept(model, X):
    restored = through_a_file(model)
    states = [
        {name: part for name, part in sorted(vars(one).items()) if name not in LEFT_OUT}
        for one in (model, restored)
    ]
    assert list(states[0]) == list(states[1])
    for name, part in states[0].items():
        assert equal(part, states[1][name]), name
    assert predictions(model, X) == predictions(restored, X)


# ---- there and back ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BMRMClassifier-cost", "SwapSVC", "SDCACRF", "SwapSVCCV"])
def test_a_file_has_the_whole_model(name):
    model, X, y = MODELS[name]
    is_kept(clone(model).fit(X, y), X)


@pytest.mark.wide
@pytest.mark.parametrize("name", MODELS)
def test_every_estimator_comes_back_whole(name):
    model, X, y = MODELS[name]
    assert type(model).__name__ == name.partition("-")[0]
    is_kept(clone(model).fit(X, y), X)


@pytest.mark.wide
@pytest.mark.parametrize("case", FURTHER, ids=lambda case: str(case[0])[:60])
def test_models_losses_regularizers_and_layouts_come_back(case):
    model, X, y = case
    is_kept(model.fit(X, y), X)


def test_every_public_estimator_is_in_the_table():
    public = {
        name for name in sklearn_bundle.__all__ if isinstance(getattr(sklearn_bundle, name), type)
    }
    assert {name.partition("-")[0] for name in MODELS} == public == set(_ESTIMATORS)


def test_what_is_not_fitted_has_its_parameters():
    model = BMRMRegressor(Hinge(), reg_lambda=math.inf, tol=np.float32(0.1), verbose=True)
    restored = through_a_file(model)
    assert equal(model.get_params(), restored.get_params())
    assert not hasattr(restored, "coef_")


def test_predictions_are_of_the_fit_and_not_of_later_parameters():
    model = SwapSVC(kernel="poly", degree=2).fit(X, TWO)
    before = model.decision_function(X)
    restored = through_a_file(model.set_params(degree=5))
    assert np.array_equal(restored.decision_function(X), before)
    assert restored.degree == 5


def test_sparsified_chains_and_bounds_of_the_optimum():
    model, X, y = MODELS["SDCACRF"]
    model = clone(model).set_params(l1_ratio=0.9).fit(X, y)
    certain = model.certain(X)
    restored = through_a_file(model.sparsify())
    assert sp.issparse(restored.coef_)
    assert restored.predict(X) == model.predict(X)
    assert equal([part.tolist() for part in restored.certain(X)], [p.tolist() for p in certain])


def test_a_loaded_model_can_be_fitted_again():
    model = through_a_file(BMRMClassifier(reg_lambda=0.1, warm_start=True).fit(X, TWO))
    assert np.array_equal(model.fit(X, TWO).coef_, clone(model).fit(X, TWO).coef_)


def test_equal_models_make_equal_files(tmp_path):
    model = BMRMClassifier(reg_lambda=0.1).fit(X, THREE)
    for name in ("first", "second"):
        sklearn_bundle.save(model, tmp_path / name)
    first = (tmp_path / "first").read_bytes()
    assert first == (tmp_path / "second").read_bytes()
    sklearn_bundle.save(sklearn_bundle.load(tmp_path / "first"), str(tmp_path / "third"))
    assert first == (tmp_path / "third").read_bytes()


def test_arrays_of_a_file_are_read_by_numpy_alone():
    file, model = io.BytesIO(), BMRMClassifier(reg_lambda=0.1).fit(X, THREE)
    sklearn_bundle.save(model, file)
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["arrays/coef_"], model.coef_)


# ---- files of earlier versions -------------------------------------------------------------------


def equal_parameters(a, b):
    return repr(a) == repr(b)  # objects of this package show their parameters


@pytest.mark.parametrize("name", MODELS)
def test_files_of_version_1_are_read(name):
    expected = json.loads((FOLDER / "predictions.json").read_text(encoding="utf-8"))[name]
    model, X, _ = MODELS[name]
    restored = sklearn_bundle.load(FOLDER / f"{name}.zip")
    assert type(restored) is type(model)
    assert restored.get_params().keys() == model.get_params().keys()
    assert all(map(equal_parameters, restored.get_params().values(), model.get_params().values()))
    assert restored.converged_ and 0.0 <= restored.relative_gap_ <= restored.tol
    assert np.all(restored.lower_bound_ <= restored.objective_)
    for method, values in predictions(restored, X).items():
        before = expected[method]
        if isinstance(values[0], float) or (
            isinstance(values[0], list) and isinstance(np.ravel(values[0])[0], float)
        ):
            for new, old in zip(values, before, strict=True):  # sequences differ in length
                np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-12)
        else:
            assert values == before


# ---- what is refused ---------------------------------------------------------------------------


class OwnLoss(Hinge):
    pass


class OwnClassifier(BMRMClassifier):
    pass


def own_kernel(X, Z):
    return X @ Z.T


@pytest.mark.parametrize(
    "model, message",
    [
        (SwapSVC(kernel=own_kernel), r"SwapSVC\.kernel cannot .* The code of a function"),
        (BMRMClassifier(OwnLoss()), r"BMRMClassifier\.loss cannot .*test_saved_files\.OwnLoss"),
        (BMRMRanker(NDCG(gain=np.sqrt)), r"BMRMRanker\.loss\.gain cannot .* numpy\.ufunc"),
        (SwapSVC(random_state=np.random.RandomState(0)), r"random_state cannot .*RandomState"),
        (BMRMClassifier(class_weight={"a": 1j}), r"class_weight\.a cannot .* builtins\.complex"),
        (OwnClassifier(), "takes an estimator of this package, got one of .*OwnClassifier"),
        (LogisticRegression(), "got one of sklearn.*LogisticRegression.* skops"),
        (BMRMClassifier, "got one of abc.ABCMeta|got one of builtins.type"),
        (None, "got one of builtins.NoneType"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_saved_is_named_and_no_file_is_touched(model, message, tmp_path):
    file = tmp_path / "model"
    file.write_text("before", encoding="utf-8")
    with pytest.raises(TypeError, match=message):
        sklearn_bundle.save(model, file)
    assert file.read_text(encoding="utf-8") == "before"


def changed(change, **members):
    """A file whose document ``change`` has changed, or with other bytes in place of members."""
    source, out = FOLDER / "SwapSVC-precomputed.zip", io.BytesIO()
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = members.get(name.rpartition("/")[2].partition(".")[0], old.read(name))
            if name == "model.json":
                document = json.loads(data)
                change(document)
                data = json.dumps(document)
            new.writestr(name, data)
    return out


def npy(array, **options):
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def put(*path):
    *places, name, value = path

    def change(document):
        for place in places:
            document = document[place]
        document[name] = value

    return change


FITTED = "model", "fitted"
SCORES = *FITTED, "scores"


@pytest.mark.parametrize(
    "change, message",
    [
        (put("format", 2), "cannot be read: it has format 2, of sklearn_bundle 0.1.0; .* Update"),
        (put("format", "1"), "format '1'"),
        (put("format", 0), "format 0"),
        (put("model", "object", "os.system"), "the class 'os.system'"),
        (put("model", "object", "losses.ndarray"), "the class 'losses.ndarray'"),
        (put("model", "object", ["SwapSVC"]), "damaged"),
        (put("model", {"object": "losses.Hinge", "parameters": {}, "fitted": {}}), "no estimator"),
        (put("model", "parameters", "new", 1), "SwapSVC has no parameter 'new' in this version"),
        (put(*FITTED, "predict", 1), "'predict' is not the name of a fitted attribute"),
        (put(*FITTED, "__class__", 1), "'__class__' is not the name"),
        (put(*FITTED, "coef_", {"call": "os.system"}), "unknown kind 'call'"),
        (put(*FITTED, "coef_", {}), "unknown kind None"),
        (put(*FITTED, "coef_", {"array": "../secret.npy"}), "is not the name of an array"),
        (put(*FITTED, "coef_", {"array": "arrays/no.npy"}), "arrays/no.npy"),
        (put(*FITTED, "coef_", {"scalar": "O", "value": 1}), "'O' is not a type of numbers"),
        (put(*FITTED, "tol_", math.nan), "NaN is not JSON"),
        (put(*FITTED, "n_features_in_", 3), "support_ must hold integers from 0 to 2"),
        (
            put(*SCORES, "parameters", "n_support", [1, 2]),
            "n_support adds up to 3, but vectors has",
        ),
    ],
    ids=str,
)
def test_a_changed_document_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        sklearn_bundle.load(changed(change))


@pytest.mark.parametrize(
    "data, message",
    [
        (npy(np.array([print], dtype=object), allow_pickle=True), "allow_pickle=False"),
        (npy(np.zeros(1))[:-3], "damaged"),
        (npy(np.zeros(1)) + b"0", "longer than its array"),
        (npy(np.zeros(7)), "has the shape"),
        (b"", "damaged"),
        (npy(np.zeros(1)).replace(b"(1,)", b"(9999999999999,)"), "damaged"),
    ],
    ids=range(6),
)
def test_changed_arrays_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        sklearn_bundle.load(changed(lambda _: None, intercept_=data))


@pytest.mark.parametrize(
    "data",
    [b"", b"no zip", (FOLDER / "SwapSVC.zip").read_bytes()[:-40], b"PK\5\6" + bytes(18)],
    ids=["empty", "text", "cut off", "zip without members"],
)
def test_other_files_are_refused(data, tmp_path):
    (tmp_path / "model.bin").write_bytes(data)
    with pytest.raises(ValueError, match=r"model\.bin was not written by sklearn_bundle\.save"):
        sklearn_bundle.load(tmp_path / "model.bin")


def test_compressed_members_and_missing_files_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "packed", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", "{}" * 1000)
    with pytest.raises(ValueError, match="its members are compressed"):
        sklearn_bundle.load(tmp_path / "packed")
    with pytest.raises(FileNotFoundError):
        sklearn_bundle.load(tmp_path / "none")


@pytest.mark.wide
@pytest.mark.parametrize(
    "name, change",
    [
        ("model_.max_lengths_", lambda a: a + 1),
        ("model_.max_lengths_", lambda a: a[:1]),
        ("lengths_", lambda a: a[:, :1]),
        ("transitions_", lambda a: a[:1]),
        ("coef_", lambda a: a[:, :1]),
    ],
)
def test_shapes_of_segments_are_compared(name, change):
    model = StructuredSVM(Segments(boundaries=False), reg_lambda=0.1).fit(SPANS, OF_SPANS)
    holder = model.model_ if "." in name else model
    own = name.rpartition(".")[2]
    setattr(holder, own, change(getattr(holder, own)).copy())
    with pytest.raises(ValueError, match=rf"damaged: (max_)?{own}|damaged: max_lengths_"):
        through_a_file(model)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["w_", "model_.edges_"])
def test_shapes_of_label_sets_are_compared(name):
    model = StructuredSVM(Multilabel("full"), reg_lambda=0.1).fit(X, np.c_[TWO, 1 - TWO])
    holder, own = (model.model_, "edges_") if "." in name else (model, name)
    setattr(holder, own, getattr(holder, own) + 2 if own == "edges_" else model.w_[:-1].copy())
    with pytest.raises(ValueError, match=rf"damaged: {own}"):
        through_a_file(model)


def test_a_file_with_a_bit_turned_is_refused():
    data = bytearray((FOLDER / "SwapSVC.zip").read_bytes())
    data[data.index(b"arrays/intercept_") + 200] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        sklearn_bundle.load(io.BytesIO(bytes(data)))


def test_arrays_whose_names_would_be_equal_stay_apart():
    weights = {"a_2": np.zeros(2), "a": [np.ones(2), np.full(2, 2.0)], "a_": np.full(2, 3.0)}
    restored = through_a_file(BMRMClassifier(class_weight=weights)).class_weight
    assert restored["a_2"].tolist() == [0.0, 0.0] and restored["a_"].tolist() == [3.0, 3.0]
    assert [part.tolist() for part in restored["a"]] == [[1.0, 1.0], [2.0, 2.0]]


def test_what_ends_a_save_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    file = tmp_path / "model.zip"
    sklearn_bundle.save(SwapSVC().fit(X, TWO), file)
    before = file.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sklearn_bundle.saving.npy.write_array", full)
    with pytest.raises(OSError, match="No space"):
        sklearn_bundle.save(SwapSVC().fit(X, TWO), file)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


def test_numbers_that_other_machines_lack():
    model = through_a_file(BMRMClassifier(tol=np.longdouble(1e-2)))
    assert model.tol == 1e-2 and type(model.tol) is float
    with pytest.raises(TypeError, match="class_weight cannot be saved"):
        through_a_file(BMRMClassifier(class_weight=np.ones(2, np.longdouble)))


def test_labels_may_be_dates():
    dates = np.array(["2026-11-25", "2026-11-26"], "datetime64[D]")[TWO]
    model = SwapSVC().fit(X, dates)
    assert (through_a_file(model).predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_shapes_of_kernel_machines_are_compared(convert):
    """Compiled code reads as many columns as the data have."""
    for part, message in (("vectors", "vectors has the shape"), ("classes_", "n_support has the")):
        model = SwapSVC().fit(convert(X), THREE)
        if part == "vectors":
            model._scores.vectors = model._scores.vectors[:, :1].copy()
        else:
            model.classes_ = model.classes_[:2].copy()
        with pytest.raises(ValueError, match=message):
            through_a_file(model)
