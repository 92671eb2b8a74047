"""A search for parameters with scikit-learn, whose fits are jobs: joblib's backend is `grainlike`.

Nothing of the search changes. `request=` says what each fit gets: two cores, and threads of BLAS and OpenMP to match.
The fits run on this machine; with `pool=GrainlikePool(Cores(2), head=...)` they run on the workers of a head.

It takes `pip install 'grainlike[joblib,demo]'`.

It prints::

    best: C=10, gamma=0.1
    accuracy on digits that the search has not seen: 0.99
    27 fits, each on 2 cores
"""

import joblib
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from grainlike import GVAR, Cores
from grainlike.adapters import GrainlikePool, register_joblib

GRID = {"svc__C": [0.1, 1, 10], "svc__gamma": [0.004, 0.02, 0.1]}


def main() -> None:
    digits = load_digits()
    train, test, train_is, test_is = train_test_split(digits.data, digits.target, random_state=0)
    search = GridSearchCV(make_pipeline(MinMaxScaler(), SVC()), GRID, cv=3)
    register_joblib()
    with (
        GrainlikePool(Cores(2), local=Cores(2)) as pool,
        joblib.parallel_config("grainlike", request=Cores(2), pool=pool),
    ):
        search.fit(train, train_is)
        width = pool.submit(lambda: len(GVAR.res.cores)).result()
    best = {name.removeprefix("svc__"): value for name, value in search.best_params_.items()}
    print("best:", ", ".join(f"{name}={value}" for name, value in best.items()))
    print(f"accuracy on digits that the search has not seen: {search.score(test, test_is):.2f}")
    print(f"{len(search.cv_results_['params']) * 3} fits, each on {width} cores")


if __name__ == "__main__":
    main()
